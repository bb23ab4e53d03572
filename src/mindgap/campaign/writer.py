"""The one thread that writes: a commit about every second, and patience when the disk is full."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Final

from mindgap.campaign.dossier import Dossier
from mindgap.campaign.ledger import Ledger
from mindgap.errors import NoSpace

COMMIT_S: Final = 1.0
WAIT_S: Final = 5.0
MOST_WAITING: Final = 2048
"""Variants that may wait to be written; a full disk stops the campaign there and costs no more memory."""


class Writer(threading.Thread):
    """Takes finished variants and enters them into the ledger."""

    def __init__(
        self,
        ledger: Ledger,
        lock: threading.Lock,
        on_pause: Callable[[NoSpace], None],
        on_failure: Callable[[BaseException], None],
        stop: threading.Event,
    ) -> None:
        super().__init__(name="writer", daemon=True)
        self.written = 0
        self._ledger = ledger
        self._ledger_lock = lock
        self._inbox: queue.Queue[Dossier] = queue.Queue(MOST_WAITING)
        self._closing = threading.Event()
        self._on_pause = on_pause
        self._on_failure = on_failure
        self._stop_now = stop

    def put(self, dossier: Dossier) -> None:
        """Waits while a full disk holds everything up; what finds no room at a stop is done again next time."""
        while True:
            try:
                self._inbox.put(dossier, timeout=0.2)
                return
            except queue.Full:
                if self._stop_now.is_set():
                    return

    def close(self) -> None:
        """Write what is there and end."""
        self._closing.set()
        if self.is_alive():
            self.join()

    def flush(self) -> None:
        """Wait until everything that was put is committed."""
        while self.is_alive() and self._inbox.unfinished_tasks:
            time.sleep(0.02)

    def run(self) -> None:
        try:
            while not (self._closing.is_set() and self._inbox.empty()):
                batch = self._collect()
                if batch and not self._commit(batch):
                    return
        except BaseException as error:
            self._on_failure(error)

    def _collect(self) -> list[Dossier]:
        batch: list[Dossier] = []
        deadline = time.monotonic() + COMMIT_S
        while time.monotonic() < deadline and len(batch) < MOST_WAITING:
            try:
                batch.append(self._inbox.get(timeout=0.05))
            except queue.Empty:
                if self._closing.is_set():
                    break
        return batch

    def _commit(self, batch: list[Dossier]) -> bool:
        """Whether it was written; only a stop gives up while the disk is full."""
        while True:
            try:
                with self._ledger_lock:
                    self.written += self._ledger.write(batch)
            except NoSpace as error:
                self._on_pause(error)
                if self._closing.is_set() or self._stop_now.wait(WAIT_S):
                    return False
                continue
            for _ in batch:
                self._inbox.task_done()
            return True
