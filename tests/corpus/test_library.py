from __future__ import annotations

import importlib.util
import socket
import sys
import types

import pytest

from mindgap.corpus import library, registry
from mindgap.corpus.registry import Library
from mindgap.errors import ModelError

LIBRARIES = [item for item in registry.discover() if isinstance(item, Library)]


@pytest.mark.parametrize("item", [item for item in LIBRARIES if item.packages], ids=lambda item: item.prefix)
def test_a_missing_package_says_how_to_install_it(item: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    library.compiled_parts.make_importable()  # what it finds is remembered
    loaded = [name for name in sys.modules if name.split(".")[0] in item.packages]
    for name in {*loaded, *item.packages}:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, package=None: None)
    with pytest.raises(ModelError, match=rf"pip install 'mindgap\[{item.extra}\]'"):
        list(item.offers())


def test_every_library_has_its_own_prefix_and_form() -> None:
    prefixes = [item.prefix for item in LIBRARIES]
    assert len(set(prefixes)) == len(prefixes) >= 14
    assert all(form.startswith(f"{item.prefix}:") for item in LIBRARIES for form in item.forms)


def test_an_old_version_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("made_up")
    module.__version__ = "1.9.1"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "made_up", module)
    assert library.import_library("made_up", at_least="1.9") is module
    with pytest.raises(ModelError, match=r"made_up 1\.9\.1 is too old[^$]*1\.10 or newer"):
        library.import_library("made_up", at_least="1.10")


def test_a_package_that_breaks_on_import(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> None:
        raise OSError("libmade_up.so: cannot open shared object file")

    monkeypatch.setattr("mindgap.corpus.library.importlib.import_module", refuse)
    with pytest.raises(ModelError, match=r"cannot be imported[^$]*OSError: libmade_up"):
        library.import_library("made_up")


def test_nothing_is_fetched_while_offline() -> None:
    look_up = socket.getaddrinfo
    with library.offline(), pytest.raises(library.Offline, match="without network"):
        socket.create_connection(("models.invalid", 443))
    assert socket.getaddrinfo is look_up
