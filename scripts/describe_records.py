"""Describes records in a page, field by field, from their code: `python scripts/describe_records.py docs/json.md`.

What lies between the two marks in the page is replaced: a table for the explanation, and one for each record inside it.
A field's meaning is the docstring under it.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

RECORDS = Path(__file__).resolve().parents[1] / "src" / "mindgap" / "records"
SHOWN = {"explanation.py": ("Explanation", "TracedOperator", "Cause", "Layer", "Proof", "Script"),
         "verdict.py": ("Verdict", "WrongElement")}  # fmt: skip
BEGIN, END = "<!-- made by scripts/describe_records.py: make reference -->\n", "<!-- end -->\n"

PLAIN = {
    "Explanation.name": "The model or the finding.",
    "Explanation.version": "Of the platform.",
    "Explanation.trace": "Every operator of the program.",
    "Explanation.cause": "Why.",
    "Explanation.layer": "Null for a platform without layers, or where none could be told.",
    "Explanation.proof": "The witness.",
    "Explanation.script": "The reproducer.",
    "Explanation.versions": "Of every package that matters.",
    "TracedOperator.node": "Its id in the program.",
    "TracedOperator.op": "`aten.div.Tensor_mode`.",
    "TracedOperator.where": "The module that it comes from.",
    "TracedOperator.wrong": "Wrong elements.",
    "TracedOperator.elements": "Elements of its result.",
    "TracedOperator.kind": "What differs when it runs alone.",
    "TracedOperator.problem": "What went wrong when it ran alone.",
    "Cause.evidence": "The experiments that speak for it.",
    "Layer.sentence": "The same for a person.",
    "Proof.status": "What the platform did with it.",
    "Proof.stage": "How far it came.",
    "Proof.operators": "What is left.",
    "Proof.elements": "Numbers in its inputs and constants.",
    "Proof.stable": "Whether every run gave the same bits.",
    "Script.path": "Inside the folder.",
    "Script.reproduces": "Whether it showed the difference.",
}
"""Where the name of a field is enough in the code, but not in a page."""


def classes() -> dict[str, ast.ClassDef]:
    """The records, and the enumerations beside them, by name."""
    return {
        node.name: node
        for file in ("explanation.py", "verdict.py", "outcome.py")
        for node in ast.parse((RECORDS / file).read_text()).body
        if isinstance(node, ast.ClassDef)
    }


def fields(record: ast.ClassDef) -> list[tuple[str, str, str]]:
    """Name, type and meaning of each field."""
    found = []
    for node, following in zip(record.body, [*record.body[1:], None]):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name = node.target.id
            text = PLAIN.get(f"{record.name}.{name}", "")
            if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
                text = " ".join(str(following.value.value).split()).replace("None", "null")
            found.append((name, ast.unparse(node.annotation), text))
    return found


def told(annotation: str, known: dict[str, ast.ClassDef]) -> str:
    """A type in words: `tuple[str, ...]` is a list of texts."""
    plain = {"str": "text", "int": "integer", "float": "number", "bool": "true or false", "None": "null"}
    if " | " in annotation:
        return " or ".join(told(part, known) for part in annotation.split(" | "))
    if annotation.startswith("Mapping["):
        return f"object of {told(annotation[8:-1].split(', ')[1], known)}s"
    if annotation.startswith("tuple[") and annotation.endswith(", ...]"):
        inner = annotation[6:-6]
        return f"list of pairs {told(inner, known)}" if inner.startswith("tuple[") else f"list of {told(inner, known)}s"
    if annotation.startswith("tuple["):
        return f"[{', '.join(told(part, known) for part in annotation[6:-1].split(', '))}]"
    if annotation in plain:
        return plain[annotation]
    if any(isinstance(base, ast.Name) and base.id == "Enum" for base in known[annotation].bases):
        values = [str(n.value.value) for n in known[annotation].body
                  if isinstance(n, ast.Assign) and isinstance(n.value, ast.Constant)]  # fmt: skip
        return ", ".join(f"`{value}`" for value in values)
    return f"[{annotation}](#{annotation.lower()})"


def describe() -> str:
    """All tables."""
    known = classes()
    parts = []
    for names in SHOWN.values():
        for name in names:
            about = re.split(r"\n\n", ast.get_docstring(known[name]) or "")[0]
            rows = [f"| `{field}` | {told(kind, known)} | {text} |" for field, kind, text in fields(known[name])]
            parts += [f"### {name}\n", f"{about}\n", "| field | type | meaning |\n|---|---|---|", *rows, ""]
    return "\n".join(parts)


def described(page: str) -> str:
    """The page with its tables made again."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{describe()}\n{END}{after}"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(described(path.read_text()))
