"""The page is served read-only, to this machine, and made again when there is more."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator

import pytest

from mindgap.errors import CorruptFile, UsageError
from mindgap.report import serving


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(serving, "FRESH_S", 0.0)
    count = iter(range(100))
    with serving.serve(lambda: f"<p>{next(count)}</p>", "127.0.0.1", 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield int(server.server_address[1])
        server.shutdown()


def ask(port: int, path: str = "/", method: str = "GET", **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def test_it_follows_what_it_shows(port: int) -> None:
    first, second = ask(port), ask(port)
    assert first[0] == second[0] == 200 and first[1] != second[1]
    assert ask(port, "/stamp")[1] != ask(port, "/stamp")[1]


def test_a_page_knows_its_own_stamp() -> None:
    """So that nothing is lost between the page and the first question of whether there is more."""
    page, stamp = serving.Kept(lambda: '<html lang="en" data-live="1">').get()
    assert page.decode() == f'<html lang="en" data-live="{stamp}">'


def test_what_cannot_be_read_now_is_told_and_asked_for_again() -> None:
    def make() -> str:
        raise CorruptFile("the ledger is damaged\nand more")

    with serving.serve(make, "127.0.0.1", 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        status, said = ask(int(server.server_address[1]), "/stamp")
        server.shutdown()
    assert status == 503 and "the ledger is damaged" in said


def test_it_only_reads_and_knows_two_addresses(port: int) -> None:
    assert ask(port, "/../../etc/passwd")[0] == 404
    assert ask(port, "/", "POST")[0] == 501


def test_another_host_name_is_refused(port: int) -> None:
    assert ask(port, Host="evil.example")[0] == 403
    assert ask(port, Host=f"localhost:{port}")[0] == 200


def test_a_port_that_is_taken_is_told(port: int) -> None:
    with pytest.raises(UsageError, match="cannot listen"):
        serving.serve(str, "127.0.0.1", port)
