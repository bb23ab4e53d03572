"""The exporter's rewrite rules, tried only where they can match.

onnxscript asks each of its rules at each node, and half of what an export from remembered calls costs is the answer no.
A rule that begins with one operator says no at every other; that is asked here first.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch


@contextlib.contextmanager
def quick_rewrites() -> Iterator[None]:
    """Rules as before, without what they do before they say no."""
    from onnxscript.rewriter._rewrite_rule import RewriteRule

    ask = RewriteRule.try_rewrite

    def ask_where_it_may_match(rule: Any, model: Any, graph: Any, node: Any, **details: Any) -> Any:
        wanted = _first_operator(rule)
        return None if wanted is not None and wanted != node.op_type else ask(rule, model, graph, node, **details)

    with patch.object(RewriteRule, "try_rewrite", ask_where_it_may_match):
        yield


@functools.lru_cache(1 << 12)
def _first_operator(rule: Any) -> str | None:
    """The operator of the node that a rule is asked about; None where it takes several."""
    identifier = rule._target_pattern.output_nodes[0].op_identifier()
    return None if identifier is None else str(identifier[1])
