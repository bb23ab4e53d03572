"""mindgap.toml: the user's own platforms and limits."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from mindgap.errors import BadConfig, Untrusted
from mindgap.platforms.config_file import FILE_NAME, find_config
from mindgap.platforms.names import RUNTIME, Name, parse_name
from mindgap.platforms.registry import built_in, runtimes, spec_of
from mindgap.platforms.trust import code_in, forget, is_trusted, trust
from mindgap.reading.files import parse_toml, read_file
from mindgap.reading.limits import TEXT_BYTES
from mindgap.records.platform import Limits, PlatformSpec

_LIMITS: Final = tuple(limit.name for limit in fields(Limits))
_KEYS: Final = ("runtime", "adapter", "device", "profile", "python", "env", "options", "summary", "install", *_LIMITS)
_EXAMPLE: Final = '[platform.torch29]  runtime = "eager"  python = "/opt/torch29/bin/python"'


@dataclass(frozen=True, slots=True)
class Config:
    """What the user declared."""

    platforms: Mapping[str, PlatformSpec] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    """What one request may cost on a platform that declares no limits of its own."""
    path: Path | None = None


def load_config(path: Path | str | None = None) -> Config:
    """The configuration in a file; without a path, `./mindgap.toml` if it exists and may be used.

    Naming a file is consent. One that is found must be confirmed once where it would run programs: `mindgap trust`.
    """
    file = find_config(path)
    if file is None:
        return Config()
    reader = _Reader(file)
    code = reader.code() if path is None else []
    if code and not is_trusted(file, reader.content):
        more = f"; and {len(code) - 3} more" if len(code) > 3 else ""
        raise Untrusted(
            f"{FILE_NAME} was found here and would run programs that you have not confirmed",
            where=str(file.absolute()),
            cause="; ".join(code[:3]) + more,
            hint=f"read it, then run mindgap trust; or name it: --config {FILE_NAME}",
        )
    return reader.read()


def trust_config(path: Path) -> list[str]:
    """Confirm a file as it is now; what it may execute from now on."""
    reader = _Reader(path)
    reader.read()
    trust(path, reader.content)
    return reader.code()


def forget_config(path: Path) -> bool:
    """Take the confirmation of a file back; whether there was one."""
    return forget(path, _Reader(path).content)


@dataclass(frozen=True)
class _Reader:
    """Turns a file into a Config; every mistake names the file, the key and what is allowed."""

    file: Path

    @cached_property
    def content(self) -> bytes:
        """Read once: what is confirmed is what is used."""
        return read_file(self.file, TEXT_BYTES, BadConfig)

    def read(self) -> Config:
        content = parse_toml(self.content, self.file, BadConfig)
        self.check_keys(content, ("platform", "defaults"), "")
        limits = self.limits(self.table(content.get("defaults", {}), "defaults", _LIMITS), "defaults", Limits())
        declared = self.table(content.get("platform", {}), "platform", None)
        platforms = {name: self.platform(name, body, limits) for name, body in declared.items()}
        return Config(platforms, limits, self.file)

    def code(self) -> list[str]:
        """What the file would execute."""
        platforms = parse_toml(self.content, self.file, BadConfig).get("platform")
        return code_in(platforms) if isinstance(platforms, dict) else []

    def platform(self, name: str, body: Any, defaults: Limits) -> PlatformSpec:
        key = f"platform.{name}"
        table = self.table(body, key, _KEYS)
        spec = self.base(name, table, key)
        options = self.table(table.get("options", {}), f"{key}.options", self.option_names(spec))
        return replace(
            spec,
            name=name,
            python=self.interpreter(table, key) or spec.python,
            env={**spec.env, **self.environment(table.get("env", {}), f"{key}.env")},
            options={**spec.options, **options},
            limits=self.limits({k: v for k, v in table.items() if k in _LIMITS}, key, defaults),
            summary=self.text(table, "summary", key) or spec.summary,
            install=self.text(table, "install", key) or spec.install,
        )

    def base(self, name: str, table: Mapping[str, Any], key: str) -> PlatformSpec:
        """What the declaration starts from: a runtime, an adapter, or the platform of that name."""
        runtime, adapter = self.text(table, "runtime", key), self.text(table, "adapter", key)
        device, profile = self.text(table, "device", key), self.text(table, "profile", key)
        existing = built_in(name)
        if runtime is None and adapter is None:
            if existing is None:
                raise self.mistake(
                    f"platform {name} has neither runtime nor adapter", key, "one of them is needed", _EXAMPLE
                )
            if device or profile:
                raise self.mistake(f"platform {name} has its device and profile in its name", key)
            return existing
        if existing is not None or not re.fullmatch(RUNTIME, name):
            raise self.mistake(
                f"{name!r} is the name of a built-in platform" if existing else f"{name!r} cannot be a platform's name",
                key,
                "a name of your own has letters, digits, dots, - and _",
            )
        if runtime is not None and adapter is not None:
            raise self.mistake(f"platform {name} has both runtime and adapter", key, "only one of them is allowed")
        if adapter is not None:
            if not re.fullmatch(r"[\w.]+:\w+", adapter) or profile:
                raise self.mistake(f"the adapter of platform {name} cannot be parsed", f"{key}.adapter",
                                   'it looks like "package.module:Class" and has no profile')  # fmt: skip
            return PlatformSpec(name, adapter, device=device, summary=f"{adapter}")
        return self.of_runtime(str(runtime), device, profile, key)

    def of_runtime(self, runtime: str, device: str | None, profile: str | None, key: str) -> PlatformSpec:
        cls = runtimes().get(runtime)
        if cls is None:
            raise self.unknown("runtime", runtime, runtimes(), f"{key}.runtime")
        parsed = parse_name(f"{runtime}:{device}") if device is not None else Name(runtime)
        if parsed is None or (parsed.device_kind is not None and parsed.device_kind not in cls.devices):
            raise self.unknown("device", str(device), cls.devices, f"{key}.device")
        if profile is not None and profile not in cls.profiles:
            raise self.unknown("profile", profile, cls.profiles, f"{key}.profile")
        return spec_of(cls, replace(parsed, profile=profile))

    def option_names(self, spec: PlatformSpec) -> Collection[str] | None:
        """The options that a built-in adapter takes; None, which is any, for an adapter of the user."""
        own = {f"{cls.__module__}:{cls.__qualname__}": tuple(cls.options) for cls in runtimes().values()}
        return own.get(spec.adapter)

    def interpreter(self, table: Mapping[str, Any], key: str) -> str | None:
        """A path is relative to the file; a bare name is looked up when the platform is used."""
        python = self.text(table, "python", key)
        if python is None or not re.search(r"[/\\]", python):
            return python
        return str(self.file.absolute().parent / Path(python).expanduser())

    def environment(self, value: Any, key: str) -> dict[str, str]:
        table = self.table(value, key, None)
        for name, item in table.items():
            if isinstance(item, bool) or not isinstance(item, str | int | float):
                raise self.mistake("an environment variable is not text", f"{key}.{name}", f"found {_kind(item)}")
        return {name: str(item) for name, item in table.items()}

    def limits(self, table: Mapping[str, Any], key: str, defaults: Limits) -> Limits:
        for name, value in table.items():
            whole = name.endswith("_mb")
            if not _is_positive(value) or (whole and not isinstance(value, int)):
                allowed = "a whole number of megabytes" if whole else "a number of seconds"
                raise self.mistake(f"{name} is {value!r}", f"{key}.{name}", f"allowed: {allowed} above 0")
        return replace(defaults, **table)

    def text(self, table: Mapping[str, Any], name: str, key: str) -> str | None:
        value = table.get(name)
        if value is None or (isinstance(value, str) and value.strip()):
            return value
        raise self.mistake(f"{name} is not text", f"{key}.{name}", f"found {_kind(value)}")

    def table(self, value: Any, key: str, allowed: Collection[str] | None) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.mistake(f"{key} is not a table", key, f"found {_kind(value)}")
        if allowed is not None:
            self.check_keys(value, allowed, key)
        return value

    def check_keys(self, table: Mapping[str, Any], allowed: Collection[str], key: str) -> None:
        for name in table:
            if name not in allowed:
                raise self.unknown("key", name, allowed, f"{key}.{name}" if key else name)

    def unknown(self, what: str, name: str, allowed: Collection[str], key: str) -> BadConfig:
        near = difflib.get_close_matches(name, list(allowed), n=1)
        listed = ", ".join(sorted(allowed)) or "none"
        return self.mistake(
            f"unknown {what} {name!r}", key, f"allowed: {listed}", f"did you mean {near[0]}?" if near else None
        )

    def mistake(self, what: str, key: str | None, cause: str | None = None, hint: str | None = None) -> BadConfig:
        return BadConfig(what, where=f"{self.file}: {key}" if key else str(self.file), cause=cause, hint=hint)


def _is_positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")


def _kind(value: Any) -> str:
    kinds = {
        str: "empty text",
        bool: "true or false",
        int: "a number",
        float: "a number",
        list: "a list",
        dict: "a table",
    }
    return kinds.get(type(value), type(value).__name__)
