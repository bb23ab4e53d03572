"""Whether a model's name can be right, told before torch is imported: a misspelt name should cost no time.

Only what is certain is refused here; everything else is told by the worker that loads the model.
"""

from __future__ import annotations

import ast
import difflib
import functools
import importlib.util
import re
import warnings
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from mindgap.corpus import files
from mindgap.errors import ModelError
from mindgap.reading.files import read_file
from mindgap.reading.limits import FILE_BYTES
from mindgap.records.declared import declared
from mindgap.records.source import PRECISIONS

PYTHON_FILE: Final = re.compile(r"(?P<path>.+\.py)(?::(?P<factory>[A-Za-z_]\w*))?$")
SHIPPED: Final = {name: Path(__file__).parent / name for name in ("core", "smoke")}
"""The corpora that come with mindgap: a folder of programs each."""
SMOKE: Final = SHIPPED["smoke"]

_SOURCES: Final = "mindgap.corpus.sources"
_DYNAMIC: Final = {"exec", "eval", "globals", "vars", "locals", "setattr", "__getattr__"}
"""With one of these a file may define any name."""


def refuse_unknown(spec: str, directory: Path) -> None:
    """Raises the ModelError that loading this model would end with, where its name or its text already tells."""
    python = PYTHON_FILE.match(spec)
    prefix, colon, name = spec.partition(":")
    libraries = library_prefixes()
    if colon and prefix in _prefixes():
        if prefix in libraries:
            _refuse_missing(libraries[prefix], name)
    elif python is not None:
        _refuse_undefined(files.resolve(python["path"], str(directory)).resolve(), python["factory"])
    elif not (spec and (directory / Path(spec).expanduser()).exists()):
        if Path(spec).suffix and not colon:
            files.resolve(spec, str(directory))
        raise unknown_model(spec, directory)


def refuse_precision(dtype: str) -> None:
    """Raises ModelError for a dtype that no model can be cast to."""
    if dtype not in PRECISIONS:
        raise ModelError(f"unknown dtype {dtype!r}", hint=f"one of {', '.join(PRECISIONS)}")


def library_prefixes() -> dict[str, Mapping[str, Any]]:
    """What every library declares of itself, by its prefix."""
    return {item["prefix"]: item for item in declared(_SOURCES, "prefix")}


def all_forms() -> list[str]:
    """Every way to write a model."""
    return [form for item in declared(_SOURCES, "forms") for form in item["forms"]]


def refuse_source(name: str) -> None:
    """Raises ModelError for what is neither a library nor a file or directory."""
    if name not in library_prefixes() and not Path(name).exists():
        near = files.did_you_mean(name, list(library_prefixes()))
        raise ModelError(
            f"there is no library and no file {name}", hint=near or "mindgap corpus list names the libraries"
        )


def unknown_model(spec: str, directory: Path) -> ModelError:
    """The error for what is of no source's form."""
    prefix, colon, name = spec.partition(":")
    near = difflib.get_close_matches(prefix, sorted(_prefixes()), n=1) if colon else []
    hint = f"did you mean {near[0]}:{name}?" if near else f"write one of: {', '.join(all_forms())}"
    cause = _why_not(directory / spec) if spec else "the spec is empty"
    return ModelError(f"{spec!r} does not name a model", cause=cause, hint=hint)


def unknown_name(name: str, names: Collection[str], prefix: str) -> ModelError:
    """The error for a model that a library does not have."""
    hint = files.did_you_mean(name, names, f"{prefix}:") or f"mindgap corpus list --source {prefix}"
    return ModelError(f"{prefix} has no model {name!r}", hint=hint)


def undefined(path: Path, factory: str | None, names: Collection[str]) -> ModelError:
    """The error for a Python file without the factory, or without `model`."""
    hint = files.did_you_mean(factory, [name for name in names if not name.startswith("_")]) if factory else None
    return ModelError(
        f"{path.name} does not define {factory or 'model'}",
        where=str(path),
        hint=hint or "define model (a module or a function) and inputs(), or name a factory: file.py:factory",
    )


def program_files(spec: str) -> list[Path]:
    """The files of some programs: all of `core` or `smoke`, one of them (`core:NAME`), or a path."""
    if spec in SHIPPED:
        return sorted(SHIPPED[spec].glob("*.mgp"))
    prefix, colon, name = spec.partition(":")
    path = SHIPPED[prefix] / f"{name}.mgp" if colon and prefix in SHIPPED else Path(spec)
    if not path.is_file():
        raise ModelError(
            f"there is no program {spec}",
            hint="a .mgp file (mindgap save writes one), core:NAME or smoke:NAME (mindgap corpus list --source core)",
        )
    return [path]


def _prefixes() -> set[str]:
    """What comes before the colon of any form but that of a Python file."""
    return {form.partition(":")[0] for form in all_forms() if ":" in form and ".py" not in form}


def _why_not(path: Path) -> str | None:
    if path.is_dir():
        return f"the directory {path} has no config.json"
    if path.is_file():
        return f"files that end in {path.suffix or 'nothing'} are not models"
    return None


def _refuse_undefined(path: Path, factory: str | None) -> None:
    """A file that Python cannot parse, or that does not define what is asked of it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(read_file(path, FILE_BYTES, ModelError), str(path))
    except (SyntaxError, ValueError) as error:
        line = f":{error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        raise ModelError(
            f"{path.name} failed: importing it raised {type(error).__name__}",
            where=f"{path}{line}",
            cause=str(error).splitlines()[0],
        ) from error
    names = set(_bound(tree))
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    if (factory or "model") not in names and not (names | used) & (_DYNAMIC | {"*"}):
        raise undefined(path, factory, names)


def _bound(tree: ast.Module) -> Iterator[str]:
    """Every name that the file binds, at any depth."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).partition(".")[0]
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def _refuse_missing(library: Mapping[str, Any], name: str) -> None:
    """A library that is not installed, or whose text nowhere spells this name."""
    prefix, packages = library["prefix"], library.get("packages", ())
    if len(packages) == 1 and importlib.util.find_spec(packages[0]) is None:
        raise ModelError(f"{packages[0]} is not installed", hint=f"pip install 'mindgap[{library['extra']}]'")
    if prefix in SHIPPED and not (SHIPPED[prefix] / f"{name}.mgp").is_file():
        raise unknown_name(name, [path.stem for path in SHIPPED[prefix].glob("*.mgp")], prefix)
    if "spelled_in" not in library:
        return
    folder, pattern = library["spelled_in"]
    words, names = _spelled(packages[0], folder, pattern)
    architecture = re.split("[.:]", name)[0]  # before a tag or a head
    if words and architecture not in words:
        raise unknown_name(architecture, names, prefix)


@functools.cache
def _spelled(package: str, folder: str, pattern: str) -> tuple[frozenset[str], tuple[str, ...]]:
    """Every word in the files of a package's folder, and what the pattern finds there."""
    found = importlib.util.find_spec(package)
    roots = (found.submodule_search_locations if found is not None else None) or []
    texts = [path.read_text(encoding="utf-8") for root in roots for path in (Path(root) / folder).glob("*.py")]
    words = frozenset(word for text in texts for word in re.findall(r"[\w-]+", text))
    return words, tuple(sorted({name for text in texts for name in re.findall(pattern, text)}))
