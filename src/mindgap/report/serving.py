"""A page that follows what it shows: a small read-only server, by default for this machine alone."""

from __future__ import annotations

import contextlib
import hashlib
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from mindgap.errors import MindgapError, UsageError

FRESH_S: Final = 5.0
"""A page is made again after this time at the earliest, however many ask; one that takes longer, after as long as that,
so that a large campaign is not held up by those who follow it."""


class Kept:
    """The page as it was made last; one thread makes it, the others wait."""

    def __init__(self, make: Callable[[], str]) -> None:
        self._make, self._lock = make, threading.Lock()
        self._page, self._stamp, self._due = b"", "", float("-inf")

    def get(self) -> tuple[bytes, str]:
        """The page and what tells it from another one."""
        with self._lock:
            start = time.monotonic()
            if start > self._due:
                made = self._make()
                self._stamp = hashlib.sha256(made.encode()).hexdigest()
                self._page = made.replace(' data-live="1"', f' data-live="{self._stamp}"', 1).encode()
                end = time.monotonic()
                self._due = end + max(FRESH_S, end - start)
            return self._page, self._stamp


def serve(make: Callable[[], str], host: str, port: int) -> ThreadingHTTPServer:
    """A server that is ready to run; only GET, only two addresses, and only for those who know its name."""
    kept = Kept(make)

    class Handler(BaseHTTPRequestHandler):
        def handle(self) -> None:
            with contextlib.suppress(ConnectionError):  # a reader who went away misses nothing
                super().handle()

        def do_GET(self) -> None:
            asked = self.headers.get("Host", "")
            if not _is_for_us(asked, host):
                self.send_error(403, "another host was asked for")
                return
            if self.path not in ("/", "/stamp"):
                self.send_error(404)
                return
            try:
                page, stamp = kept.get()
            except MindgapError as error:  # damaged, or being written: it may be whole when somebody asks again
                self.send_error(503, str(error).splitlines()[0])
                return
            self._answer(page if self.path == "/" else stamp.encode(), "html" if self.path == "/" else "plain")

        def _answer(self, content: bytes, kind: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", f"text/{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.send_header("X-Frame-Options", "DENY")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Nothing: the terminal shows where the page is."""

    try:
        return ThreadingHTTPServer((host, port), Handler)
    except OSError as error:
        raise UsageError(
            f"cannot listen on {host}:{port}", cause=error.strerror, hint="choose another port with --port"
        ) from error


def _is_for_us(asked: str, host: str) -> bool:
    """Against pages elsewhere that make a browser ask here under another name."""
    names = {host, "localhost", "127.0.0.1", "[::1]"} if host in ("127.0.0.1", "localhost", "::1") else None
    return names is None or asked.rpartition(":")[0] in names or asked in names
