"""Every error that mindgap raises on purpose.

MindgapError                 what happened, where, why and what next; printed without a traceback
├── FilesLost                somebody removed files that workers share
├── UsageError               the caller asked for something that cannot be done (exit code 2)
│   ├── UnknownPlatform      no platform of that name; names the nearest one
│   ├── PlatformUnavailable  the platform is known, but cannot run here; says how to get it
│   ├── BadConfig*           mindgap.toml is not what it should be
│   ├── ModelError           the model cannot be loaded: missing, broken, or its inputs do not fit
│   │   └── CorruptModel*    the file is damaged, or not what its name says
│   ├── Untrusted*           using the file would execute code from it; needs --trust or `mindgap trust`
│   ├── CorruptFile*         a pack, results or a ledger is damaged, or not what its name says
│   └── NoSpace              the disk (or shared memory) is full
└── ProgramError             a program cannot be made, read or run
    ├── UnsupportedConstruct the exported graph holds something that a program cannot express
    ├── CorruptProgram*      the file is not a program, is damaged, or breaks a rule of the graph
    └── FutureProgram*       the file was written by a newer mindgap

* is also Unreadable: a reader of other people's files raises one of these, whatever the file holds.
"""

from __future__ import annotations


class MindgapError(Exception):
    """What happened, where, why and what to do next."""

    def __init__(
        self, what: str, *, where: str | None = None, cause: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.cause = cause
        self.hint = hint

    def __str__(self) -> str:
        rows = [("where", self.where), ("cause", self.cause), ("next", self.hint)]
        return "\n".join([self.what, *(f"  {label:<6} {text}" for label, text in rows if text)])


class Unreadable(MindgapError):
    """A file that mindgap was given is refused: it is not what it should be, or would do harm."""


class FilesLost(MindgapError):
    """Somebody removed files that workers share."""


class UsageError(MindgapError):
    """The caller asked for something that cannot be done."""


class UnknownPlatform(UsageError):
    """No platform of that name."""


class PlatformUnavailable(UsageError):
    """The platform is known, but cannot run here."""


class BadConfig(UsageError, Unreadable):
    """mindgap.toml is not what it should be."""


class ModelError(UsageError):
    """The model cannot be loaded."""


class CorruptModel(ModelError, Unreadable):
    """A model's file is damaged, or not what its name says."""


class Untrusted(UsageError, Unreadable):
    """Using the file would execute code from it."""


class CorruptFile(UsageError, Unreadable):
    """A pack, results or a ledger is damaged, or not what its name says."""


class NoSpace(UsageError):
    """There is no room left to write."""


class ProgramError(MindgapError):
    """A program cannot be made, read or run."""


class UnsupportedConstruct(ProgramError):
    """The exported graph holds something that a program cannot express."""


class CorruptProgram(ProgramError, Unreadable):
    """The file is not a program, is damaged, or breaks a rule of the graph."""


class FutureProgram(ProgramError, Unreadable):
    """The file was written by a newer mindgap."""
