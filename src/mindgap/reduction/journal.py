"""What was tried before: a reduction that was stopped continues from there."""

from __future__ import annotations

import json
from pathlib import Path

from mindgap.errors import UsageError


class Journal:
    """Answers by the key of a witness, one line each; a line that was cut off is ignored."""

    def __init__(self, path: Path | None = None, about: str = "") -> None:
        self._path = path
        self._answers: dict[str, str] = {}
        if path is None:
            return
        lines = path.read_text(errors="replace").splitlines() if path.exists() else []
        if lines and lines[0] == about:
            for line in lines[1:]:
                self._read(line)
            return
        try:
            path.write_text(about + "\n")
        except OSError as error:
            raise UsageError(f"cannot write {path}", cause=error.strerror) from error

    def _read(self, line: str) -> None:
        try:
            key, answer = json.loads(line)
        except ValueError:
            return
        if isinstance(key, str) and isinstance(answer, str):
            self._answers[key] = answer

    def __len__(self) -> int:
        return len(self._answers)

    def get(self, key: str) -> str | None:
        """How that witness showed the finding; empty when it did not, None when it was not tried."""
        return self._answers.get(key)

    def note(self, key: str, answer: str) -> None:
        self._answers[key] = answer
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(json.dumps([key, answer]) + "\n")
