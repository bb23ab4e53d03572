"""The standalone script: what to run, on what, and whether the difference is still there."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass

from mindgap.explanation.code import Code, write_code
from mindgap.platforms.base import Platform
from mindgap.platforms.registry import adapter_class
from mindgap.program.case import Case
from mindgap.records.platform import PlatformSpec
from mindgap.tracing.examine import Examination
from mindgap.verdicts.elements import THRESHOLD

DATA_FILE = "repro.pt"


@dataclass(frozen=True, slots=True)
class Script:
    """A script and the tensors that go into a file beside it."""

    text: str
    code: Code


def write_script(
    case: Case,
    found: Examination,
    spec: PlatformSpec,
    versions: Mapping[str, str],
    exact: bool = False,
    shared_deaths: bool = False,
) -> Script:
    """The script for a finding; `exact` writes operators by their own names, `shared_deaths` also shows a death that
    eager shares."""
    platform = (adapter_class(spec) or Platform).reproducer(spec)
    code = write_code(case, as_module=platform.exports, returns_changed=platform.exports, exact=exact)
    values = found.eager.ok and found.candidate.ok
    seen = {name: versions[name] for name in ("torch", *platform.packages, "python", "system") if name in versions}
    head = _docstring(found, seen) + "\n\n" + _imports(code, spec, platform.text, values)
    parts = [
        head,
        code.function + ("\n\n\nmodel = Model()" if code.is_module else ""),
        f"def inputs():\n    return [{', '.join(code.inputs)}]",
        _AS_LIST,
        platform.text.strip(),
        _running(code, platform.exports),
        _in_float64(code, platform.exports) if values else "",
        _other_process(spec) if values and (spec.env or spec.python) else "",
        _SAME if values else "",
        _compare(found) if values else _failures(spec),
        _main(bool(spec.env or spec.python)) if values else _main_failures(spec.name, shared_deaths),
    ]
    return Script("\n\n\n".join(part for part in parts if part) + "\n", code)


def _docstring(found: Examination, versions: Mapping[str, str]) -> str:
    seen = ", ".join(f"{name} {version}" for name, version in versions.items())
    said = textwrap.fill(safe(f"{found.verdict.platform}: {found.verdict.sentence}"), 100)
    return f'"""{said}\n\nExit code: 1 while the difference exists, 0 when it is gone.\nSeen with {safe(seen)}.\n"""'


def safe(text: str) -> str:
    """Text from a runtime inside a docstring."""
    return " ".join(text.split()).encode("ascii", "replace").decode().replace("\\", "/").replace('"', "'")


def _imports(code: Code, spec: PlatformSpec, platform: str, values: bool) -> str:
    isolated = bool(spec.env or spec.python) or not values
    names = ["sys"]
    if isolated:
        names += ["os", "subprocess"]
    if isolated and values:
        names.append("tempfile")
    if "copy." in platform or (values and code.is_module):
        names.append("copy")
    if code.data:
        names.append("pathlib")
    used = code.function + platform
    names += [name for name in ("math", "operator") if f"{name}." in used]
    lines = [f"import {name}" for name in sorted(set(names))] + ["", "import torch"]
    if " F." in used or "(F." in used:
        lines.append("import torch.nn.functional as F")
    lines += ["", "torch.set_num_threads(1)", "torch.set_grad_enabled(False)"]
    if values:
        lines.append("torch.set_printoptions(threshold=64, edgeitems=1)")
    if code.data:
        lines.append(f'DATA = torch.load(pathlib.Path(__file__).with_name("{DATA_FILE}"), weights_only=True)')
    return "\n".join(lines)


_AS_LIST = """def as_list(result):
    return list(result) if isinstance(result, (list, tuple)) else [result]"""


def _running(code: Code, exports: bool) -> str:
    """Eager and the platform, each on fresh inputs; what is written to an input is a result too."""
    return f"""def on_eager():
    given = inputs()
    return as_list(model(*given)){_written(code, exports)}


def candidate():
    given = inputs()
    return on_platform(model, given){_written(code, exports)}"""


def _in_float64(code: Code, exports: bool) -> str:
    model = "copy.deepcopy(model).double()" if code.is_module else "model"
    extra = "".join(f", {name}=torch.float64" for name in code.dtypes)
    return f"""def in_float64():
    torch.set_default_dtype(torch.float64)
    try:
        given = [x.double() if x.is_floating_point() else x for x in inputs()]
        return as_list({model}(*given{extra})){_written(code, exports)}
    finally:
        torch.set_default_dtype(torch.float32)"""


def _written(code: Code, exports: bool) -> str:
    if exports or not code.changed:
        return ""
    return " + [" + ", ".join(f"given[{i}]" for i in code.changed) + "]"


def _other_process(spec: PlatformSpec) -> str:
    """The platform needs another environment or interpreter: this script runs itself there."""
    python = f"{spec.python!r}" if spec.python else "sys.executable"
    return f"""def candidate_elsewhere():
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "result.pt")
        environment = {{**os.environ, **{dict(spec.env)!r}}}
        subprocess.run([{python}, __file__, file], env=environment, check=True)
        return torch.load(file, weights_only=True)"""


_SAME = """def torch_same(expected, actual, exact):
    \"\"\"What PyTorch's own benchmarks ask: is it about as near to float64 as eager is?\"\"\"
    from torch._dynamo.utils import same

    try:
        return same(expected, actual, fp64_ref=exact, equal_nan=True)
    except Exception as error:  # shapes that differ, or no float64
        return f"cannot say ({type(error).__name__})\""""


def _compare(found: Examination) -> str:
    """What rounding explains was measured with random rounding noise; the script carries the result."""
    return f'''ROUNDING = {found.spread:.3g}  # the most that random rounding noise moved a result
FACTOR = {THRESHOLD:g}  # up to this many times that, or last bits, is still rounding


def wrong(actual, expected):
    """How many elements differ by more than rounding explains; all of them when dtype or shape differ."""
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        return max(expected.numel(), 1)
    if not expected.is_floating_point():
        return int((actual != expected).sum())
    eps = torch.finfo(expected.dtype).eps
    actual, expected = actual.double(), expected.double()
    allowed = FACTOR * torch.clamp(eps * expected.abs().nan_to_num(), min=max(ROUNDING, 1e-37))
    same = (actual == expected) | (actual.isnan() & expected.isnan())
    return int((~same & ~((actual - expected).abs() <= allowed)).sum())'''


def _main(elsewhere: bool) -> str:
    call = "candidate_elsewhere()" if elsewhere else "candidate()"
    first = ["    if len(sys.argv) > 1:", "        torch.save(candidate(), sys.argv[1])", "        sys.exit(0)"]
    lines = [
        'if __name__ == "__main__":',
        *(first if elsewhere else []),
        f"    expected, actual = on_eager(), {call}",
        "    try:",
        "        exact = in_float64()",
        "    except Exception as error:  # not every operator has a float64 kernel",
        "        exact = [str(error)] * len(expected)",
        "    differing = abs(len(expected) - len(actual))",
        "    torch.set_printoptions(threshold=64)  # a larger tensor is shown by its corners",
        "    for e, a, x in zip(expected, actual, exact):",
        '        print("eager    ", e)',
        '        print("platform ", a)',
        '        print("float64  ", x)',
        '        print("torch\'s same():", torch_same(e, a, x))',
        "        differing += wrong(a, e)",
        '    print(f"DIFFERS: {differing} elements" if differing else "no difference beyond rounding")',
        "    sys.exit(1 if differing else 0)",
    ]
    return "\n".join(lines)


def _failures(spec: PlatformSpec) -> str:
    python = f"{spec.python!r} if who != 'eager' else sys.executable" if spec.python else "sys.executable"
    return f'''def attempt(who):
    """What happens, tried in a process of its own: it may die."""
    environment = {{**os.environ, **({dict(spec.env)!r} if who != "eager" else {{}})}}
    done = subprocess.run([{python}, __file__, who], capture_output=True, text=True, env=environment)
    if done.returncode == 0:
        return "runs", "returns " + done.stdout.strip()
    if done.returncode < 0:
        return "dies", f"dies of signal {{-done.returncode}}"
    return "refuses", "refuses: " + (done.stderr.strip().splitlines() or [""])[-1]'''


def _main_failures(platform: str, shared_deaths: bool) -> str:
    """Whether only one of both runs; where that is asked for, also whether the platform dies anyway."""
    shared = [
        '    if platform == "dies":  # whether eager shares that or not',
        '        found = "BOTH DIE" if eager == "dies" else "DIFFERS"',
    ]
    lines = [
        'if __name__ == "__main__":',
        "    if len(sys.argv) > 1:",
        '        print(on_eager() if sys.argv[1] == "eager" else candidate())',
        "        sys.exit(0)",
        f'    (eager, eager_said), (platform, platform_said) = attempt("eager"), attempt("{platform}")',
        '    print("eager    ", eager_said)',
        '    print("platform ", platform_said)',
        '    found = "DIFFERS" if (eager == "runs") != (platform == "runs") else ""',
        *(shared if shared_deaths else []),
        '    print(found or "no difference")',
        "    sys.exit(1 if found else 0)",
    ]
    return "\n".join(lines)
