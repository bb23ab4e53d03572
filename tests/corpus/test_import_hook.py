from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mindgap.corpus import compiled_parts, import_hook
from mindgap.corpus.plan import libraries
from tests.corpus.requiring import require


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_plain_python_imports_timm(tmp_path: Path) -> None:
    require(libraries()["timm"])
    import_hook.write(tmp_path)
    start = f"import site, sys; site.addsitedir({str(tmp_path)!r})\n"
    unused = "print(any(name.partition('.')[0] in ('torch', 'mindgap') for name in sys.modules))\n"
    done = python(start + unused + "import timm; print(timm.create_model('resnet18').num_classes)")
    assert (done.returncode, done.stdout) == (0, "False\n1000\n"), done.stderr


def test_without_it_timm_cannot_be_imported_where_the_compiled_part_does_not_load() -> None:
    """The failure that the hook is for; where torchvision fits its torch there is nothing to help."""
    require(libraries()["timm"])
    if not compiled_parts.make_importable():
        pytest.skip("torchvision loads here")
    if (Path(pytest.__file__).parents[1] / f"{import_hook.NAME}.pth").exists():
        pytest.skip("this environment is helped already")
    assert "torchvision::nms does not exist" in python("import timm").stderr


def test_without_mindgap_nothing_breaks(tmp_path: Path) -> None:
    import_hook.write(tmp_path)
    (tmp_path / "mindgap").mkdir()
    (tmp_path / "mindgap" / "__init__.py").write_text("raise ModuleNotFoundError('no mindgap')")
    (tmp_path / "torchvision.py").write_text("found = True")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nimport {import_hook.NAME} as hook\n"
    code += "count = lambda: sum(type(f) is hook.Helper for f in sys.meta_path)\n"
    code += "before = count(); hook.install()\n"  # an environment that has the hook begins with one
    done = python(code + "import torchvision; print(torchvision.found, count() <= before)")
    assert (done.returncode, done.stdout) == (0, "True True\n"), done.stderr
