"""Whole ONNX files as they are: those of the corpus' models, and those that ship inside wheels."""

from __future__ import annotations

import hashlib
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import torch

from mindgap.bench.audit import programs
from mindgap.bench.audited import SIZES, fed
from mindgap.bench.everywhere import check_together, ready_platforms
from mindgap.bench.measurement import Measurement, Row, Tell, grouped, median
from mindgap.bench.side_by_side import problem_of
from mindgap.errors import UsageError
from mindgap.platforms.base import StageClock
from mindgap.platforms.onnx.export import export_onnx, require_exporter
from mindgap.platforms.versions import versions
from mindgap.program import codec
from mindgap.program.case import Case
from mindgap.program.examples import of_program
from mindgap.reading.limits import FILE_BYTES

PLATFORMS: Final = ("onnxruntime", "openvino")
EXPORTED: Final = "exported from the corpus"


def measure(
    tell: Tell, count: int = 64, wheels: Path | None = None, on: Sequence[str] = (), keep: Path | None = None
) -> Measurement:
    """Export models of the smoke and core corpora, evenly chosen, unpack the wheels, and check every file."""
    require_exporter()
    platforms = ready_platforms(on or PLATFORMS)
    with tempfile.TemporaryDirectory(prefix="mindgap-onnx-") as name:
        folder = Path(name)
        refused: dict[str, str] = {}
        files = _exported(folder, count, refused, lambda what: tell("export", what))
        shipped = _shipped(folder, wheels) if wheels is not None else {}
        files |= shipped
        specs = {model: str(path) for model, path in files.items()}
        inputs = {model: _inputs(path) for model, path in shipped.items()}
        seen = check_together(specs, inputs, platforms, keep, lambda what: tell("ONNX models", what))
    told = [
        *(f"- {model}: torch's exporter refuses it: {why}" for model, why in refused.items()),
        *(f"- `{row['platform']}`, {row['model']}: {row['sentence']}" for row in seen if not _quiet(row)),
    ]
    return Measurement(
        name="onnx_models",
        what="ONNX files checked as they are, against ONNX's reference implementation in float64",
        on=f"{len(files)} files x {len(platforms)} platforms; {len(refused)} models could not be exported",
        rows=grouped(seen, lambda row: f"{_source(row['model'])}, {row['platform']}", _summary),
        conclusion="\n".join(["What is not the same, and why:", "", *told] if told else ["All agree."]),
        versions={**versions([]), **platforms},
    )


def _exported(folder: Path, count: int, refused: dict[str, str], tell: Callable[[str], None]) -> dict[str, Path]:
    """The files by model; `refused` gets what the exporter says of the others."""
    every = list(programs().items())
    chosen = every if count >= len(every) else [every[i * len(every) // count] for i in range(count)]
    files: dict[str, Path] = {}
    for name, path in chosen:
        tell(f"{name} ({len(files)} of {len(chosen)} done)")
        program, constants = codec.load(path)
        target = folder / f"{path.parent.name}-{path.stem}.onnx"
        try:
            made = export_onnx(Case.of(program, constants, of_program(program, 0)), StageClock())
        except Exception as error:
            refused[name] = problem_of(error)
            continue
        target.write_bytes(made.proto.SerializeToString())
        files[name] = target
    return files


def _shipped(folder: Path, wheels: Path) -> dict[str, Path]:
    """Each .onnx file of each wheel, by the wheel's name and its own; of files that are the same, one."""
    found = sorted(wheels.glob("*.whl"))
    if not found:
        raise UsageError(f"{wheels} holds no wheel", hint="pip download --no-deps -d DIR silero-vad magika rapidocr")
    every = [item for wheel in found for item in _unpacked(folder, wheel)]
    by_content = {hashlib.sha256(path.read_bytes()).digest(): (name, path) for name, path in reversed(every)}
    return dict(reversed(by_content.values()))


def _unpacked(folder: Path, wheel: Path) -> Iterator[tuple[str, Path]]:
    with zipfile.ZipFile(wheel) as archive:
        members = [item for item in archive.infolist() if item.filename.endswith(".onnx")]
        for number, item in enumerate(members):
            if item.file_size > FILE_BYTES:
                raise UsageError(f"{item.filename} in {wheel.name} is larger than {FILE_BYTES} bytes")
            target = folder / f"{wheel.stem}-{number}.onnx"
            target.write_bytes(archive.read(item))
            yield f"{wheel.name.split('-')[0]}/{Path(item.filename).name}", target


def _inputs(path: Path) -> list[str | None]:
    """Inputs of several sizes for a file that leaves sizes open: pictures, frames of sound, tokens."""
    import onnx

    try:
        model = onnx.load(path, load_external_data=False)
        given = {size: fed(model, size) for size in SIZES}
    except Exception:  # whatever is wrong with the file, its check says so
        return [None]
    shapes = {tuple(tuple(tensor.shape) for tensor in made.values()) for made in given.values()}
    if len(shapes) == 1:
        return [None]
    made: list[str | None] = []
    for size, tensors in given.items():
        torch.save(tensors, file := path.with_suffix(f".{size}.pt"))
        made.append(str(file))
    return made


def _source(model: str) -> str:
    return EXPORTED if model.startswith(("smoke:", "core:")) else "shipped in wheels"


def _quiet(row: Mapping[str, object]) -> bool:
    return row["verdict"] in ("agrees", "rounding")


def _summary(key: str, rows: Sequence[Row]) -> Row:
    source, _, platform = key.rpartition(", ")
    floors = [row["floors"] for row in rows if row["verdict"] == "rounding" and row.get("floors") is not None]
    count = {word: sum(row["verdict"] == word for row in rows) for word in ("agrees", "rounding", "diverges", "failed")}
    return {
        "files": source or "all",
        "platform": platform,
        "checked": len(rows),
        **count,
        "other": len(rows) - sum(count.values()),
        "median floors": median(floors),
        "most floors": f"{max(floors):.1f}" if floors else "-",
    }
