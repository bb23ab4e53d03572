"""Every platform that this build knows, discovered from modules and entry points."""

from __future__ import annotations

import functools
import importlib
import inspect
import os
import pkgutil
import shutil
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import entry_points
from types import ModuleType
from typing import TYPE_CHECKING

import mindgap.platforms
from mindgap.errors import BadConfig, UsageError
from mindgap.platforms import environments
from mindgap.platforms.base import Platform
from mindgap.platforms.messages import first_cause
from mindgap.platforms.names import Name, parse_name
from mindgap.platforms.recipe import Recipe
from mindgap.platforms.spelling import ENTRY_POINTS, Spelled, unknown_platform
from mindgap.records.platform import PlatformSpec

if TYPE_CHECKING:
    from mindgap.platforms.config import Config


def catalogue(config: Config | None = None) -> list[PlatformSpec]:
    """Every platform name: built in, offered by a package, declared by the user; usable here or not."""
    specs = [spec for cls in runtimes().values() for spec in _offered(cls)]
    specs.sort(key=lambda spec: spec.device is not None)  # those of this processor first
    specs += list(_entry_points()[1])
    if config is None:
        return specs
    known = {spec.name: replace(spec, limits=config.limits) for spec in specs}
    return list({**known, **config.platforms}.values())


def resolve(name: str, config: Config | None = None) -> PlatformSpec:
    """The platform of that name, ready for a worker; raises UnknownPlatform with the nearest names."""
    if config is not None and name in config.platforms:
        return _with_interpreter(config.platforms[name], config)
    spec = built_in(name)
    if spec is None:
        offered = {key: Spelled(tuple(cls.profiles), tuple(cls.devices)) for key, cls in runtimes().items()}
        raise unknown_platform(name, [known.name for known in catalogue(config)], offered)
    return spec if config is None else replace(spec, limits=config.limits)


def built_in(name: str) -> PlatformSpec | None:
    """The platform of that name that needs no declaration, or None."""
    parsed = parse_name(name)
    cls = None if parsed is None else runtimes().get(parsed.runtime)
    if parsed is None or cls is None:
        return next((spec for spec in _entry_points()[1] if spec.name == name), None)
    if parsed.device_kind is not None and parsed.device_kind not in cls.devices:
        return None
    if parsed.profile is not None and parsed.profile not in cls.profiles:
        return None
    return spec_of(cls, parsed)


def spec_of(cls: type[Platform], name: Name) -> PlatformSpec:
    """What a worker needs to become this runtime on this device with this profile."""
    profile = cls.profiles[name.profile] if name.profile else None
    kind = name.device_kind
    summary = profile.summary if profile else cls.summary
    spec = PlatformSpec(
        name=str(name),
        adapter=f"{cls.__module__}:{cls.__qualname__}",
        device=name.device,
        env=dict(profile.env) if profile else {},
        options=dict(profile.options) if profile else {},
        emulates=profile.emulates if profile else "",
        summary=f"{summary} on {name.device}" if name.device else summary,
        install=cls.devices[kind] if kind else cls.install,
        hardware=cls.hardware.get(kind, "") if kind else "",
    )
    recipe = _recipe_of(cls, name)
    return spec if recipe is None else _in_environment(spec, recipe, has_own_summary=profile is not None)


def _recipe_of(cls: type[Platform], name: Name) -> Recipe | None:
    """The environment of a platform: of its profile, of its device, or of the whole runtime."""
    keys = (f":{name.device_kind}@{name.profile}", f"@{name.profile}", f":{name.device_kind}", "")
    return next((cls.recipes[item] for item in keys if item in cls.recipes), None)


def _in_environment(spec: PlatformSpec, recipe: Recipe, has_own_summary: bool) -> PlatformSpec:
    """The platform in its own environment where that is installed; before, this interpreter is asked."""
    found = environments.find(recipe)
    there = found is not None and found.python.exists()
    env = {name: text.format(root=found.root) for name, text in recipe.env.items()} if found is not None else {}
    return replace(
        spec,
        python=str(found.python) if found is not None and there else None,
        env={**env, **spec.env},
        summary=spec.summary if has_own_summary else recipe.really,
        install=recipe.renewal if there else recipe.command,
        environment=recipe.name,
        size_mb=recipe.size_mb,
        hardware=recipe.missing_hardware,
    )


def recipes() -> dict[str, Recipe]:
    """Every environment that can be installed, by its name."""
    return {recipe.name: recipe for cls in runtimes().values() for recipe in cls.recipes.values()}


def recipe_named(name: str) -> Recipe:
    """The environment of that name, or the one of the platform of that name."""
    known = recipes()
    if name in known:
        return known[name]
    spec = resolve(name)
    if spec.environment:
        return known[spec.environment]
    raise UsageError(
        f"{name} has no environment of its own",
        cause=f"it needs {spec.hardware}" if spec.hardware else "it lives in the environment of mindgap",
        hint=f"get it with: {spec.install}" if spec.install else None,
    )


def refuse_emulated(spec: PlatformSpec, what: str) -> None:
    """Raise where only observed results may stand: nobody is accused for what was emulated."""
    if spec.emulates:
        raise UsageError(
            f"{spec.name} is emulated: {what} holds only what was observed",
            cause=f"it stands for {spec.emulates}",
            hint=f"see what it would change with: mindgap check MODEL --on {spec.name}",
        )


def environment_damage(spec: PlatformSpec) -> str:
    """What is missing of the installed environment of a platform; empty when nothing is, or nothing was installed."""
    recipe = recipes().get(spec.environment)
    found = environments.find(recipe) if recipe is not None else None
    return environments.damage(found) if found is not None else ""


def adapter_class(spec: PlatformSpec) -> type[Platform] | None:
    """The adapter class of a platform; None where only another interpreter can import it.

    Ask `adapter_class(spec) or Platform`: the base class answers for a runtime that is not known here.
    """
    module, _, attribute = spec.adapter.partition(":")
    try:
        cls = getattr(importlib.import_module(module), attribute)
    except Exception:  # another package's module may raise anything
        return None
    return cls if inspect.isclass(cls) and issubclass(cls, Platform) else None


def eager_of(spec: PlatformSpec) -> str | None:
    """The name of eager on the device that a platform compiles for; None for one that is not torch.compile.

    Another version of torch is compared with its own eager.
    """
    cls = adapter_class(spec)
    if cls is None or not cls.compares_with_eager_of_its_device:
        return None
    name = parse_name(spec.name)
    own = built_in(str(Name("eager", spec.device, name.profile))) if name is not None and name.profile else None
    return own.name if own is not None and own.environment == spec.environment else str(Name("eager", spec.device))


@functools.cache
def runtimes() -> dict[str, type[Platform]]:
    """Adapters by runtime: those of this package and its folders first, then those of other packages."""
    found: dict[str, type[Platform]] = {}
    for info in pkgutil.walk_packages(mindgap.platforms.__path__, "mindgap.platforms."):
        for cls in _adapters_in(importlib.import_module(info.name)):
            found[cls.runtime] = cls
    for cls in _entry_points()[0]:
        found.setdefault(cls.runtime, cls)
    return found


def _offered(cls: type[Platform]) -> Iterator[PlatformSpec]:
    yield spec_of(cls, Name(cls.runtime))
    for profile in cls.profiles:
        yield spec_of(cls, Name(cls.runtime, profile=profile))
    for device in cls.devices:
        yield spec_of(cls, Name(cls.runtime, device=device))


def _adapters_in(module: ModuleType) -> Iterator[type[Platform]]:
    for _, cls in inspect.getmembers(module, inspect.isclass):
        own = cls.__module__ == module.__name__
        if own and issubclass(cls, Platform) and not inspect.isabstract(cls) and hasattr(cls, "runtime"):
            yield cls


@functools.cache
def _entry_points() -> tuple[tuple[type[Platform], ...], tuple[PlatformSpec, ...]]:
    """Adapters of other packages; those that cannot be imported stay listed as platforms that say why."""
    found, broken = [], []
    for point in entry_points(group=ENTRY_POINTS):
        try:
            cls = point.load()
            reason = "" if inspect.isclass(cls) and issubclass(cls, Platform) else f"{point.value} is not a Platform"
        except Exception as error:
            reason = first_cause(error)
        if reason:
            broken.append(PlatformSpec(point.name, point.value, summary=f"cannot be imported: {reason}"))
        elif hasattr(cls, "runtime"):
            found.append(cls)
    return tuple(found), tuple(broken)


def _with_interpreter(spec: PlatformSpec, config: Config) -> PlatformSpec:
    """The spec with the path of its interpreter, which must exist by now."""
    if spec.python is None:
        return spec
    path = shutil.which(spec.python)  # a path is checked as it is; a bare name is looked up
    if path is None:
        there = os.path.exists(spec.python)  # noqa: PTH110
        raise BadConfig(
            f"the interpreter of platform {spec.name} {'cannot be executed' if there else 'does not exist'}",
            where=f"{config.path}: platform.{spec.name}.python",
            cause=spec.python,
            hint="make that virtual environment, or change the path",
        )
    return replace(spec, python=path)
