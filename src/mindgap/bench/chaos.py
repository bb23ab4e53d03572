"""Campaigns on a bad day: whatever is killed, stopped, filled or deleted, the ledger ends the same and nothing stays.

Every campaign runs in a process of its own, with directories of its own for shared and temporary files; where mounting
is allowed these are small file systems that can be filled. `python -m mindgap.bench.chaos DIR VARIANTS` is one
such process.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import torch

from mindgap.bench.faults import scaled
from mindgap.bench.measurement import Measurement, Tell
from mindgap.campaign.hunt import hunt
from mindgap.campaign.plan import Plan
from mindgap.campaign.reader import findings_of, open_ledger
from mindgap.errors import MindgapError
from mindgap.execution.guardian import descendants
from mindgap.execution.pool import in_parallel
from mindgap.platforms.base import Platform, Prepared, StageClock
from mindgap.platforms.config import Config
from mindgap.platforms.torch.torch_run import Placement, TorchRun, own_program
from mindgap.program.case import Case
from mindgap.program.graph import Node
from mindgap.program.interpret import Executable
from mindgap.records.outcome import Ran, Stage
from mindgap.records.platform import PlatformSpec, Probe

BASES: Final = ("smoke:rl-actor-critic", "smoke:time-series-tcn", "smoke:tabular-resnet")
SPOILT: Final = ("tanh", "sigmoid", "gelu", "softmax")
"""Operators that the diverging platform computes wrongly."""
FRAGMENTS: Final = 0.5
"""The part of the programs that are fragments, which run in crowds, as in campaigns of users."""
FATAL: Final = ("std", "flip", "argsort", "negative", "trace")
"""Operators that end its process. Both depend on operators alone, so a crowd shows what each of its members does."""
FULL_DISK: Final = 64 << 20
"""Size of the file systems that are filled."""
LONGEST_S: Final = 2400.0
"""A campaign that takes longer hangs."""
CALM_S = (0.2, 2.5)
"""Between two faults."""
GONE_S: Final = 20.0
"""After so long nothing of a campaign may still run."""


class Diverging(Platform):
    """Eager that is wrong at some operators and dies of some programs."""

    runtime = "diverging"
    summary = "eager with planted faults"

    def probe(self) -> Probe:
        return Probe(True, "1", "CPU")

    def prepare(self, case: Case, clock: StageClock) -> Prepared:
        with clock(Stage.LOAD):
            program = own_program(case, Placement())
            executable = Executable(program, case.constants)
        with clock(Stage.COMPILE):
            if any(node.op.split(".")[1] in FATAL for node in program.nodes):
                os.abort()

        def call(node: Node, function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
            wrong = any(name in node.op for name in SPOILT)
            return scaled(function, args, kwargs) if wrong else function(*args, **kwargs)

        def run(tensors: Sequence[torch.Tensor]) -> Any:
            return executable.run(tensors, caller=call)

        return TorchRun(case, Placement(), Ran.PROGRAM, run)


TABLES: Final = {
    "programs": "SELECT id, fingerprint, name, intent, mutations, nodes, recipe, steps, program FROM programs",
    "outcomes": "SELECT program, f.name, status, stage, message, class, digest, note FROM outcomes "
    "JOIN platforms f ON f.id = platform",
    "verdicts": "SELECT program, f.name, conclusion, kind, blame, error_over_bound, worst, rule, fault, sentence "
    "FROM verdicts JOIN platforms f ON f.id = platform",
}


def content(directory: Path) -> dict[str, list[tuple[Any, ...]]]:
    """What a campaign holds, order and times aside: every outcome, verdict and finding."""
    with open_ledger(directory) as data:
        found = {name: sorted(data.execute(query), key=repr) for name, query in TABLES.items()}
        findings = findings_of(data)
    found["findings"] = sorted(
        (
            f.signature,
            f.witness.program,
            f.witness.platform,
            f.variants,
            f.bases,
            f.error_over_bound,
            f.known,
            f.operator,
        )
        for f in findings
    )
    found["members"] = sorted((f.signature, e.program, e.platform) for f in findings for e in f.evidence)
    return found


@dataclass
class Place:
    """The directories of one campaign; those that are small file systems can be filled."""

    top: Path
    scratch: Path = field(init=False)
    disk: Path = field(init=False)
    mounted: list[Path] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.scratch, self.disk = self.top / "scratch", self.top / "disk"
        for folder in (self.scratch, self.disk):
            folder.mkdir(parents=True)
            options = ["mount", "-t", "tmpfs", "-o", f"size={FULL_DISK},mode=700", "tmpfs", str(folder)]
            if os.geteuid() == 0 and not subprocess.run(options, capture_output=True, check=False).returncode:
                self.mounted.append(folder)
        self.temporary.mkdir()

    @property
    def temporary(self) -> Path:
        return self.disk / "temporary"

    @property
    def campaign(self) -> Path:
        return self.disk / "campaign"

    def leftovers(self) -> list[str]:
        return [path.name for folder in (self.scratch, self.temporary) for path in folder.iterdir()]

    def processes(self) -> list[int]:
        """Processes that know these directories."""
        found = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if str(self.top).encode() in path.read_bytes():
                    found.append(int(path.parent.name))
        return found

    def close(self) -> None:
        for folder in self.mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=False)
        shutil.rmtree(self.top, ignore_errors=True)


@dataclass
class Disturbed:
    """One campaign and what is done to it."""

    place: Place
    variants: int
    chance: random.Random
    deck: list[str] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def run(self, most: int) -> None:
        """Until the campaign is done; a run that was ended is followed by another."""
        deadline = time.monotonic() + LONGEST_S
        while time.monotonic() < deadline and not self.problems:
            parent = self._start()
            killed = self._disturb(parent, most, deadline)
            code = parent.wait()
            if code == 0:
                break
            if not killed and code not in (
                128 + signal.SIGINT,
                -signal.SIGUSR1,
            ):  # Python leaves signals before it ends
                text = (self.place.top / "log").read_text(errors="replace")[-2000:]
                if not (code == 2 and "space" in text):  # a full disk may also be said, and the campaign resumed
                    self.problems.append(f"ended with {code}: {text}")
        else:
            self.problems.append("it did not end")
        gone = time.monotonic() + GONE_S
        while self.place.processes() and time.monotonic() < gone:
            time.sleep(0.2)
        for orphan in self.place.processes():
            with contextlib.suppress(OSError):
                state = Path(f"/proc/{orphan}/stat").read_text().rpartition(")")[2].split()[0]
                command = Path(f"/proc/{orphan}/cmdline").read_text().replace("\0", " ")
                self.problems.append(f"a process is left in state {state}: {command[:200]}")
                os.kill(orphan, signal.SIGKILL)
        if self.place.leftovers():
            self.problems.append(f"leftovers: {', '.join(self.place.leftovers())}")

    def _start(self) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ, "MINDGAP_SCRATCH": str(self.place.scratch), "TMPDIR": str(self.place.temporary),
        }  # fmt: skip
        command = [sys.executable, "-m", __name__, str(self.place.campaign), str(self.variants)]
        with (self.place.top / "log").open("wb") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, env=environment)

    def _disturb(self, parent: subprocess.Popen[bytes], most: int, deadline: float) -> bool:
        """Faults at random moments; whether one of them ended the campaign's process."""
        known = set(descendants(parent.pid, 1000))
        while parent.poll() is None:
            if time.monotonic() > deadline:
                parent.kill()
                return True
            if sum(self.faults.values()) >= most or not descendants(parent.pid, 1000):  # no worker yet
                time.sleep(0.1)
                continue
            self._wait(parent, self.chance.uniform(*CALM_S))
            kind = self._next_fault()
            if kind == STARTING:
                known = self._await_new(parent, known)
            with contextlib.suppress(ProcessLookupError, PermissionError, IndexError):
                if DEEDS[kind](self, parent):
                    self.faults[kind] += 1
                    self.deck.remove(kind)
                    if kind in ENDING:
                        return True
        return False

    def _next_fault(self) -> str:
        """Every kind comes before one comes again; one that was not possible stays."""
        if not self.deck:
            self.deck = [*FAULTS, *(FULL if len(self.place.mounted) == 2 else ())]
        return self.chance.choice(self.deck)

    def _wait(self, parent: subprocess.Popen[bytes], seconds: float) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            parent.wait(timeout=seconds)

    def _await_new(self, parent: subprocess.Popen[bytes], known: set[int]) -> set[int]:
        """Wait for a process that starts now, and then for a random part of its start."""
        for _ in range(100):
            now = set(descendants(parent.pid, 1000))
            if now - known or parent.poll() is not None:
                break
            time.sleep(0.05)
        self._wait(parent, self.chance.uniform(0.0, 1.5))
        return now

    def kill_newest(self, parent: subprocess.Popen[bytes]) -> bool:
        os.kill(sorted(descendants(parent.pid, 1000))[-1], signal.SIGKILL)
        return True

    def signal_worker(self, parent: subprocess.Popen[bytes], number: int) -> bool:
        os.kill(self.chance.choice(descendants(parent.pid, 1000)), number)
        return True

    def signal_parent(self, parent: subprocess.Popen[bytes], number: int) -> bool:
        ready = self.place.top / "ready"
        if not ready.exists() or ready.read_text() != str(parent.pid):  # it may not know yet what the signal means
            return False
        parent.send_signal(number)
        return parent.poll() is None or number == signal.SIGKILL

    def stop_parent(self, parent: subprocess.Popen[bytes]) -> bool:
        parent.send_signal(signal.SIGSTOP)
        time.sleep(self.chance.uniform(0.5, 3.0))
        parent.send_signal(signal.SIGCONT)
        return True

    def empty(self, folder: Path) -> bool:
        inside = list(folder.iterdir())
        for path in inside:
            shutil.rmtree(path, ignore_errors=True)
        return bool(inside)

    def fill(self, parent: subprocess.Popen[bytes], folder: Path) -> bool:
        filler = folder / "filler"
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
            while file.write(bytes(1 << 16)):
                pass
        self._wait(parent, self.chance.uniform(1.0, 6.0))
        filler.unlink()
        return True


Deed = Callable[[Disturbed, "subprocess.Popen[bytes]"], bool]

STARTING: Final = "kill while it starts"
DEEDS: Final[dict[str, Deed]] = {
    "kill a worker": lambda chaos, parent: chaos.signal_worker(parent, signal.SIGKILL),
    STARTING: lambda chaos, parent: chaos.kill_newest(parent),
    "stop a worker": lambda chaos, parent: chaos.signal_worker(parent, signal.SIGSTOP),
    "kill the campaign": lambda chaos, parent: chaos.signal_parent(parent, signal.SIGKILL),
    "interrupt the campaign": lambda chaos, parent: chaos.signal_parent(parent, signal.SIGINT),
    "stop the campaign": lambda chaos, parent: chaos.stop_parent(parent),
    "set the clock": lambda chaos, parent: chaos.signal_parent(parent, signal.SIGUSR1),
    "delete shared files": lambda chaos, parent: chaos.empty(chaos.place.scratch),
    "delete temporary files": lambda chaos, parent: chaos.empty(chaos.place.temporary),
    "fill shared memory": lambda chaos, parent: chaos.fill(parent, chaos.place.scratch),
    "fill the disk": lambda chaos, parent: chaos.fill(parent, chaos.place.disk),
}
ENDING: Final = ("kill the campaign", "interrupt the campaign")
FULL: Final = ("fill shared memory", "fill the disk")
"""Need file systems that may be filled."""
FAULTS: Final = tuple(kind for kind in DEEDS if kind not in FULL)


def measure(
    tell: Tell, campaigns: int = 20, faults: int = 11, variants: int = 12, seed: int = 0, jobs: int = 2
) -> Measurement:
    """Disturb campaigns and compare each with one that was left alone."""
    tell("chaos", "an undisturbed campaign")
    quiet, _, problems = _campaign(variants, random.Random(), 0)
    total: Counter[str] = Counter()

    def disturbed(number: int) -> list[str]:
        ended, done, found = _campaign(variants, random.Random(f"{seed} {number}"), faults)
        found += [f"other {name}" for name in quiet if ended.get(name) != quiet[name]]
        total.update(done)
        tell(
            "chaos", f"campaign {number}: {done.total()} faults, {'; '.join(found) or 'the same ledger, nothing left'}"
        )
        return [f"campaign {number}: {item}" for item in found]

    for found in in_parallel(jobs, disturbed, range(1, campaigns + 1)):
        problems += found
    statuses = Counter(row[2] for row in quiet["outcomes"])
    return Measurement(
        name="chaos",
        what="faults at random moments of campaigns, which are resumed where a fault ended them; afterwards every "
        "outcome, verdict and finding is compared with a campaign that was left alone, and processes and files that "
        "are left are counted",
        on=f"{campaigns} campaigns of {variants} programs, half of them fragments in crowds, on eager and a platform "
        "that diverges and crashes; "
        f"undisturbed: {', '.join(f'{count} {name}' for name, count in sorted(statuses.items()))}, "
        f"{len(quiet['findings'])} findings; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
        rows=[{"fault": kind, "count": total[kind]} for kind in DEEDS],
        conclusion=f"{total.total()} faults over {campaigns} campaigns (target: 200 over 20): {len(problems)} problems "
        "(target: 0: ledgers and findings equal, no process and no file left)"
        + "".join(f"\n  {problem}" for problem in problems),
    )


def _campaign(
    variants: int, chance: random.Random, faults: int
) -> tuple[dict[str, list[tuple[Any, ...]]], Counter[str], list[str]]:
    """What a campaign holds in the end, what was done to it, and what went wrong."""
    with _place() as place:
        disturbed = Disturbed(place, variants, chance)
        disturbed.run(faults)
        try:
            found = content(place.campaign)
        except MindgapError as error:
            found = {}
            disturbed.problems.append(str(error))
        return found, disturbed.faults, disturbed.problems


@contextlib.contextmanager
def _place() -> Iterator[Place]:
    place = Place(Path(tempfile.mkdtemp(prefix="mindgap-chaos-")))
    try:
        yield place
    finally:
        place.close()


def _main(directory: Path, variants: int) -> None:
    """One campaign, started or continued; its clock jumps when it is told to."""
    real, shift = time.time, [0.0]

    def jump(number: int, frame: object) -> None:
        shift[0] += random.uniform(-1e6, 1e6)

    time.time = lambda: real() + shift[0]
    signal.signal(signal.SIGUSR1, jump)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started this in the background may ignore it
    (directory.parents[1] / "ready").write_text(str(os.getpid()))
    platform = PlatformSpec("diverging", "mindgap.bench.chaos:Diverging")
    plan = Plan(
        ("eager", "diverging"), variants, corpus=BASES, metamorphic_share=0.2, timeout_s=60.0, fragments=FRAGMENTS
    )
    try:
        ending = hunt(directory, plan, config=Config({"diverging": platform}), jobs=1, explain_s=0.0)
    except MindgapError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(2)
    sys.exit(0 if ending.complete else 128 + signal.SIGINT)


if __name__ == "__main__":
    _main(Path(sys.argv[1]), int(sys.argv[2]))
