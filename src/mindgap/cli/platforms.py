"""List every platform; install and remove runtimes.

A platform is named `runtime[:device][@profile]`: `eager@scalar`, `inductor:cuda`. Declare your own in mindgap.toml.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from mindgap.cli.options import AsJson, ConfigFile, refuse_mistakes
from mindgap.errors import UsageError

if TYPE_CHECKING:
    from mindgap.platforms.recipe import Recipe

app = typer.Typer(invoke_without_command=True)

Names = Annotated[list[str] | None, typer.Argument(help="Platforms or environments.", metavar="NAME...")]
AllCpu = Annotated[bool, typer.Option("--all-cpu", help="Everything that runs without its vendor's hardware.")]


@app.callback()
def command(
    context: typer.Context,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    if context.invoked_subcommand is not None:
        return
    refuse_mistakes(config=config)
    from mindgap.platforms.config import load_config
    from mindgap.platforms.registry import catalogue
    from mindgap.report.console import ProgressLine, show_json, show_platforms
    from mindgap.report.summary import platforms_document
    from mindgap.session.calls import platforms

    settings = load_config(config)
    specs = catalogue(settings)
    with ProgressLine() as progress:
        progress("platforms", f"asking {len(specs)}")
        probes = platforms(config=settings)
    if as_json:
        show_json(platforms_document(specs, probes))
    else:
        show_platforms(specs, probes)


@app.command("install")
def install(names: Names = None, all_cpu: AllCpu = False) -> None:
    """Install runtimes, each in an environment of its own.

    pip does it, with your own index settings; torch is shared with this environment where the versions agree. Nothing
    counts as installed before it is whole. The environments are in mindgap/platforms of your data directory;
    MINDGAP_PLATFORMS names another one.
    """
    _install(_chosen(names, all_cpu, "install"), again=False)


@app.command("update")
def update(names: Names = None) -> None:
    """Install again what is damaged or out of date.

    An environment is out of date when this version of mindgap pins other packages than the one that made it. Platforms
    that are named are installed again in any case.
    """
    from mindgap.platforms.environments import damage, find
    from mindgap.platforms.registry import recipes
    from mindgap.report.console import show_line

    if names:
        _install(_chosen(names, False, "update"), again=True)
        return
    there = [(recipe, found) for recipe in recipes().values() if (found := find(recipe)) is not None]
    stale = [recipe for recipe, found in there if found.digest != recipe.digest or damage(found)]
    if not stale:
        show_line(f"{len(there)} installed, all of them whole and up to date" if there else "nothing is installed")
    _install(stale, again=True)


@app.command("remove")
def remove(names: Names = None, all_cpu: AllCpu = False) -> None:
    """Remove the environments of runtimes, whole or not.

    Nothing else is touched: packages of your own environment stay, and the platform can be installed again.
    """
    from mindgap.platforms.installing import remove as remove_one
    from mindgap.report.console import show_line

    for recipe in _chosen(names, all_cpu, "remove"):
        show_line(f"{recipe.name} removed" if remove_one(recipe) else f"{recipe.name} was not installed")


def _chosen(names: Sequence[str] | None, all_cpu: bool, verb: str) -> list[Recipe]:
    """The environments to work on, each once; everything that was mistyped is told before anything is done."""
    if bool(names) == all_cpu:
        raise UsageError(
            f"say what to {verb}", hint=f"mindgap platforms {verb} NAME; mindgap platforms lists the names"
        )
    from mindgap.platforms.registry import recipe_named, recipes

    each = [name for given in names or () for name in given.split(",") if name]
    return list(recipes().values()) if not names else list({(r := recipe_named(n)).name: r for n in each}.values())


def _install(chosen: Sequence[Recipe], again: bool) -> None:
    """One after the other; what failed, or is not ready afterwards, is told at the end."""
    from mindgap.platforms.environments import directory, find
    from mindgap.platforms.installing import install as make
    from mindgap.platforms.installing import plan
    from mindgap.platforms.registry import catalogue
    from mindgap.report.console import ProgressLine, show_line
    from mindgap.session.calls import platforms

    failed: dict[str, UsageError] = {}
    new = [recipe for recipe in chosen if not recipe.missing_hardware and (again or find(recipe) is None)]
    if len(new) > 1:
        show_line(f"{len(new)} environments to install, about {sum(recipe.size_mb for recipe in new):,} MB in all")
    for recipe in chosen:
        if recipe.missing_hardware and len(chosen) > 1:
            show_line(f"{recipe.name}: left out, it needs {recipe.missing_hardware}")
            continue
        steps = plan(recipe)
        show_line(
            f"{recipe.name}: {steps.size} in {directory()}; {len(steps.wanted)} packages to fetch, "
            f"{len(steps.linked)} shared with this environment"
        )
        try:
            with ProgressLine() as progress:
                made = make(recipe, lambda what, name=recipe.name: progress(name, what), again)  # type: ignore[misc]
                names = [spec.name for spec in catalogue() if spec.environment == recipe.name]
                progress(recipe.name, "asking it")
                probes = platforms(names)
        except UsageError as error:
            if len(chosen) == 1:
                raise
            failed[recipe.name] = error
            show_line(f"  failed: {error.what}")
            continue
        show_line(f"  installed {made.date} in {made.seconds:.0f} s, {made.size_mb:,} MB")
        for name in names:
            probe = probes[name]
            show_line(f"  {name}: {f'ready, {probe.version}' if probe.available else probe.reason}")
        reasons = {name: probes[name].reason for name in names if not probes[name].available}
        if reasons:
            failed[recipe.name] = _not_ready(recipe, reasons)
    if failed and len(chosen) == 1:
        raise failed[chosen[0].name]
    if failed:
        raise UsageError(
            f"{len(failed)} of {len(chosen)} could not be installed, or are not ready",
            cause="; ".join(f"{name}: {error.cause or error.what}" for name, error in failed.items()),
            hint="run the same command again: what is installed stays",
        )


def _not_ready(recipe: Recipe, reasons: Mapping[str, str]) -> UsageError:
    """An environment that is whole and serves nobody."""
    return UsageError(
        f"{recipe.name} is installed, and {', '.join(reasons)} cannot be used",
        cause="; ".join(dict.fromkeys(reasons.values())),
        hint=f"install it anew with: {recipe.renewal}" if not recipe.missing_hardware else None,
    )
