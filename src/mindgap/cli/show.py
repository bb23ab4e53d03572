"""Show the computation graph of a model, also as a picture.

\b
  mindgap show timm:resnet18                      the program with shapes, dtypes and source lines
  mindgap show model.py --around aten.softmax     only the part around an operator
  mindgap show F-03 --campaign out/hunt -o f.svg  the witness of a finding, drawn around its culprit
  mindgap show variants/bert~1f.mgp -o v.svg      what a variant changed is marked

A program of up to 40 operators is drawn whole; a larger one as the slice around an operator, or module by module.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mindgap.cli.options import Dtype, Model, Seed, Trust, output, refuse_mistakes
from mindgap.errors import UsageError

if TYPE_CHECKING:
    from mindgap.program.graph import Program


def command(
    model: Model,
    file: Annotated[Path | None, output("Draw it as an SVG picture.")] = None,
    around: Annotated[
        str | None, typer.Option(help="An operator (aten.div, aten.div.Tensor) or a node (%12).", metavar="OPERATOR")
    ] = None,
    most: Annotated[int, typer.Option(help="Operators that are drawn or listed around it.", min=1, max=400)] = 24,
    campaign: Annotated[Path | None, typer.Option(help="The campaign of a finding.", metavar="DIR")] = None,
    dtype: Dtype = None,
    seed: Seed = 0,
    trust: Trust = False,
) -> None:
    is_finding = re.fullmatch(r"F-\d+", model) is not None
    if is_finding and campaign is None:
        raise UsageError(f"--campaign is missing for {model}", hint=f"mindgap show {model} --campaign out/hunt")
    refuse_mistakes(
        model=None if is_finding else model, dtypes=[dtype], outputs=[file], campaign=campaign if is_finding else None
    )
    from mindgap.records.files import write_whole
    from mindgap.report.console import show_line
    from mindgap.report.drawing import WHOLE, by_module, draw
    from mindgap.report.drawing import around as neighbourhood
    from mindgap.report.listing import code_at, find_nodes, listing
    from mindgap.report.variants import added_nodes

    culprits: list[int] = []
    if is_finding:
        assert campaign is not None
        program, culprits, base = _finding(campaign, model)
    else:
        program, base = _load(model, dtype, seed, trust), _base_of(model)
    added = added_nodes(base, program) if base is not None else set()
    if around is not None:
        culprits = find_nodes(program, around)
    centre = culprits or sorted(added)
    chosen = neighbourhood(program, centre, most) if centre and (around or len(program.nodes) > WHOLE) else None
    marks = {**dict.fromkeys(added, "+"), **dict.fromkeys(culprits, ">")}
    is_loaded = not is_finding and not model.endswith((".mgp", ".pt2"))
    for line in listing(program, chosen, marks, code_at if is_loaded else lambda _: ""):
        show_line(line)
    if file is None:
        return
    if chosen is None and len(program.nodes) > WHOLE:
        write_whole(file, by_module(program, alone=True))
    else:
        every = {node.id for node in program.nodes}
        write_whole(file, draw(program, chosen or every, culprits, added=added, alone=True))
    show_line(f"drawn in {file}")


def _load(model: str, dtype: str | None, seed: int, trust: bool) -> Program:
    from mindgap.program.codec import decode
    from mindgap.report.console import ProgressLine
    from mindgap.session.session import Session

    with ProgressLine() as progress, Session(progress=progress) as session:
        parcel = session.build(model, None, dtype=dtype, seed=seed, trust=trust)
        if not parcel.program:
            raise UsageError(f"{model} cannot be exported", cause=parcel.export_failure)
        return decode(parcel.program, where=model)


def _finding(campaign: Path, identity: str) -> tuple[Program, list[int], Program | None]:
    """The witness of a finding, the operators at fault in it, and what it was derived from if that is at hand."""
    from mindgap.campaign.reader import finding_case, read

    finding = next((item for item in read(campaign).findings if item.id == identity), None)
    found = finding_case(campaign, identity)
    program = found.case.graph
    ops = {node.id: node.op for node in program.nodes}
    explained = finding.explanation.operators if finding is not None and finding.explanation is not None else ()
    culprits = [step.node for step in explained if ops.get(step.node) == step.op]
    names = finding.operator.split(" + ") if finding is not None and finding.operator else []
    culprits = culprits or [number for number, op in ops.items() if op in names][:1]
    return program, culprits, _base_in(campaign, found.program)


def _base_in(campaign: Path, program: int) -> Program | None:
    """The program that a variant of a campaign was made from; a fragment is nearly all new."""
    from mindgap.campaign.reader import open_ledger, plan_of
    from mindgap.errors import MindgapError
    from mindgap.records.variant import Provenance
    from mindgap.variants.origin import origin_of

    with open_ledger(campaign) as data:
        store = plan_of(data, campaign).corpus_directory
        row = data.execute(
            "SELECT b.fingerprint, b.name FROM programs p JOIN bases b ON b.id = p.base WHERE p.id = ? "
            "AND p.kind = 'variant'", (program,)
        ).fetchone()  # fmt: skip
    if row is None:
        return None
    fingerprint, name = row
    try:
        return origin_of(Provenance(fingerprint, name, 0), directory=Path(store) if store else None).program
    except MindgapError:
        return None


def _base_of(model: str) -> Program | None:
    """The program that a variant was made from, where the file has a recipe beside it and its base is at hand."""
    from mindgap.errors import MindgapError
    from mindgap.variants import files
    from mindgap.variants.origin import origin_of

    path = Path(model)
    if path.suffix != ".mgp" or not path.with_suffix(".json").is_file():
        return None
    try:
        return origin_of(files.load(path).provenance).program
    except MindgapError:
        return None
