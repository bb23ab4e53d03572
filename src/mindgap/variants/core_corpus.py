"""The core corpus: programs of a store that everybody gets, because together they do nearly all that the store does."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Final

from mindgap.corpus.sources.shipped import file_name
from mindgap.corpus.store import Entry, Status, Store
from mindgap.errors import UsageError
from mindgap.program import codec
from mindgap.program.graph import Program, leaves
from mindgap.reading.files import read_file
from mindgap.reading.limits import FILE_BYTES
from mindgap.records.files import write_whole
from mindgap.records.tensors import TensorMeta
from mindgap.variants.base import MOST_PARAMETERS
from mindgap.variants.covering import Candidate, candidate_of, cover


@dataclass(frozen=True, slots=True)
class Size:
    """What decides how long campaigns work on a program."""

    nodes: int
    parameters: int
    elements: int
    """Of all results together: what a run costs, known without running it."""

    def beyond(self, limit: Size) -> str:
        """What is more than the limit allows; empty when nothing is."""
        wrong = [field.name for field in fields(self) if getattr(self, field.name) > getattr(limit, field.name)]
        return f"more than {getattr(limit, wrong[0]):,} {wrong[0]}" if wrong else ""


AT_MOST: Final = Size(nodes=1_200, parameters=MOST_PARAMETERS, elements=60_000_000)
"""What a campaign can afford. The cover weighs what is new against cost, so few programs come near it."""
MANIFEST: Final = "SOURCES.tsv"
"""Beside the programs: which model each is, of which version, under which licence."""

LICENCES: Final = {
    "diffusers": "Apache-2.0",
    "monai": "Apache-2.0",
    "open_clip": "MIT",
    "pytorchcv": "MIT",
    "smp": "MIT",
    "timm": "Apache-2.0",
    "torch_geometric": "MIT",
    "torchaudio": "BSD-2-Clause",
    "torchvision": "BSD-3-Clause",
    "transformers": "Apache-2.0",
    "vit_pytorch": "MIT",
    "small:deepctr_torch": "Apache-2.0",
    "small:efficientnet_pytorch": "Apache-2.0",
    "small:kornia": "Apache-2.0",
    "small:mambapy": "MIT",
    "small:pytorch_forecasting": "MIT",
    "small:pytorch_tabnet": "MIT",
    "small:rtdl_num_embeddings": "Apache-2.0",
    "small:rtdl_revisiting_models": "Apache-2.0",
    "small:speechbrain": "Apache-2.0",
    "small:stable_baselines3": "MIT",
    "small:super_image": "Apache-2.0",
    "small:x_transformers": "MIT",
}
"""Packages whose models may be passed on. Not listed and so left out: ultralytics (AGPL-3.0), a user's own files."""


@dataclass(frozen=True, slots=True)
class Considered:
    """A program of a store, and why it cannot be shipped; empty for one that can."""

    entry: Entry
    candidate: Candidate
    left_out: str = ""


@dataclass(frozen=True, slots=True)
class Core:
    """What was chosen, of what."""

    considered: tuple[Considered, ...]
    chosen: Mapping[str, Entry]
    """By file name."""
    curve: tuple[tuple[int, int, int], ...]
    """After each program: how many, operators, contexts."""
    bytes: int

    @property
    def operators(self) -> frozenset[str]:
        """Of the whole store."""
        return frozenset().union(*(item.candidate.operators for item in self.considered))

    @property
    def contexts(self) -> frozenset[str]:
        """Of the whole store."""
        return frozenset().union(*(item.candidate.contexts for item in self.considered))

    @property
    def missing(self) -> dict[str, str]:
        """Operators that no chosen program has, each with the smallest model that has it and why it was left out."""
        specs = {entry.spec for entry in self.chosen.values()}
        covered = frozenset().union(*(c.candidate.operators for c in self.considered if c.entry.spec in specs))
        found = {}
        for operator in sorted(self.operators - covered):
            having = [item for item in self.considered if operator in item.candidate.operators]
            smallest = min(having, key=lambda item: (item.candidate.cost, item.entry.spec))
            found[operator] = f"{smallest.entry.spec}: {smallest.left_out or 'no room'}"
        return found

    @property
    def left_out(self) -> dict[str, int]:
        """Programs that cannot be shipped, by why."""
        return dict(Counter(item.left_out for item in self.considered if item.left_out).most_common())


def choose_core(store: Store, programs: int, progress: Callable[[int, int], None]) -> Core:
    """The cover of a store's programs, among those that may and can be shipped; raises UsageError when none is."""
    built = [entry for entry in store.entries() if entry.status is Status.BUILT]
    considered = []
    for number, entry in enumerate(built, start=1):
        progress(number, len(built))
        path = store.program_path(entry.fingerprint)
        program = codec.decode(read_file(path, FILE_BYTES), where=str(path))
        candidate = replace(candidate_of(entry.spec, program), is_reserve=not entry.alive)
        considered.append(Considered(entry, candidate, why_not(entry, program)))
    chosen = cover((item.candidate for item in considered if not item.left_out), programs)
    if not chosen:
        raise UsageError(f"no program in {store.directory} can be shipped", cause=_most_common(considered))
    entries = {entry.spec: entry for entry in built}
    operators: set[str] = set()
    contexts: set[str] = set()
    curve = []
    for number, candidate in enumerate(chosen, start=1):
        operators |= candidate.operators
        contexts |= candidate.contexts
        curve.append((number, len(operators), len(contexts)))
    named = file_names([entries[candidate.name] for candidate in chosen])
    size = sum(store.program_path(entry.fingerprint).stat().st_size for entry in named.values())
    return Core(tuple(considered), named, tuple(curve), size)


def write_core(store: Store, core: Core, folder: Path) -> None:
    """Replace the programs of a folder; raises UsageError for a folder with other programs in it."""
    folder.mkdir(parents=True, exist_ok=True)
    before = list(folder.glob("*.mgp"))
    if before and not (folder / MANIFEST).is_file():
        raise UsageError(
            f"{folder} holds programs that `mindgap corpus core` did not write", hint="choose another -o DIR"
        )
    for old in before:
        old.unlink()
    for name, entry in core.chosen.items():
        write_whole(folder / name, store.program_path(entry.fingerprint).read_bytes())
    rows = [
        "\t".join((name.removesuffix(".mgp"), entry.fingerprint, str(entry.nodes), entry.spec, *_origin(entry)))
        for name, entry in sorted(core.chosen.items())
    ]
    write_whole(folder / MANIFEST, "\n".join(["program\tfingerprint\tnodes\tmodel\tversion\tlicence", *rows, ""]))


def why_not(entry: Entry, program: Program) -> str:
    """Why a program cannot be shipped; empty for one that can."""
    if licence_of(entry.spec) is None:
        return "licence"
    if any(constant.made is None for constant in program.constants):
        return "weights that no seed gives"
    return size_of(entry, program).beyond(AT_MOST)


def licence_of(spec: str) -> str | None:
    """The licence of the package that defines a model, if the model may be passed on."""
    library, _, name = spec.partition(":")
    return LICENCES.get(f"{library}:{name.partition('.')[0]}") or LICENCES.get(library)


def size_of(entry: Entry, program: Program) -> Size:
    """How large a program is."""
    metas = [leaf for node in program.nodes for _, leaf in leaves(node.meta) if isinstance(leaf, TensorMeta)]
    return Size(len(program.nodes), entry.parameters, sum(math.prod(meta.shape) for meta in metas))


def file_names(entries: Sequence[Entry]) -> dict[str, Entry]:
    """`DOMAIN-MODEL.mgp`, where the model is told as briefly as the others allow: `llama`, then `llama-llamamodel`."""
    spelled = {entry.spec: _spellings(entry) for entry in entries}
    users = Counter(name for names in spelled.values() for name in set(names))
    return {next(name for name in spelled[entry.spec] if users[name] == 1): entry for entry in entries}


def _spellings(entry: Entry) -> list[str]:
    library, *parts = entry.spec.split(":")
    names = [parts[0], "-".join(parts), "-".join([library, *parts]), f"{entry.spec}-{entry.fingerprint}"]
    return [file_name(entry.domain, _plain(name)) for name in names]


def _plain(text: str) -> str:
    words = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-").split("-")
    return "-".join(word for word, before in zip(words, ["", *words]) if word != before)


def _origin(entry: Entry) -> tuple[str, str]:
    versions = {name: version for name, version in json.loads(entry.versions).items() if name != "torch"}
    return " ".join(f"{name} {version}" for name, version in sorted(versions.items())), licence_of(entry.spec) or ""


def _most_common(considered: Sequence[Considered]) -> str:
    reasons = Counter(item.left_out for item in considered).most_common(1)
    return f"{reasons[0][0]}, mostly" if reasons else "it holds no program"
