"""Queues that gather: a batch waits for more, but not at the beginning and not at the end."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from mindgap.campaign.queues import Gather, WorkQueue


@contextmanager
def gathering(gather: Gather) -> Iterator[tuple[WorkQueue[int], list[list[int]]]]:
    stop = threading.Event()
    batches: list[list[int]] = []
    failures: list[BaseException] = []
    queue: WorkQueue[int] = WorkQueue("q", [batches.append], threading.Semaphore(1), stop, failures.append, gather)
    try:
        yield queue, batches
    finally:
        stop.set()
        queue.join()
    assert not failures


def await_batches(batches: list[list[int]], count: int) -> None:
    deadline = time.monotonic() + 20
    while len(batches) < count and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(batches) >= count


def test_a_full_batch_does_not_wait() -> None:
    with gathering(Gather(3, 600.0, 600.0)) as (queue, batches):
        queue.batches = 10_000  # late in a campaign
        for item in range(7):
            queue.put(item)
        queue.start()
        await_batches(batches, 2)
        assert batches == [[0, 1, 2], [3, 4, 5]]


def test_nothing_waits_when_nothing_more_is_to_come() -> None:
    with gathering(Gather(3, 600.0, 600.0)) as (queue, batches):
        queue.batches = 30
        queue.put(0)
        queue.start()
        queue.hurried = True
        await_batches(batches, 1)
        assert batches == [[0]]


def test_the_first_batch_goes_soon() -> None:
    with gathering(Gather(3, 600.0, 600.0)) as (queue, batches):
        queue.put(0)
        queue.start()
        await_batches(batches, 1)
        assert batches == [[0]]


def test_what_waits_and_what_is_being_done_is_open() -> None:
    with gathering(Gather(2, 600.0, 600.0)) as (queue, batches):
        queue.batches = 30
        for item in range(3):
            queue.put(item)
        assert queue.open == 3
        queue.start()
        await_batches(batches, 1)
        deadline = time.monotonic() + 20
        while queue.open != 1 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert queue.open == 1  # also when a batch has taken it already and waits for more
