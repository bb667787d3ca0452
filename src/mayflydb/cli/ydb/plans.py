"""Plans of queries as trees of operators.

Form: https://github.com/ydb-platform/ydb `ydb/public/lib/ydb_cli/common/format.cpp`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import click

_EDGE: Final = "|  "
_NO_EDGE: Final = "   "


def show_plan(plan: str, form: str) -> None:
    """Print a plan, given as JSON: as a tree in the format `pretty`, otherwise as JSON."""
    document = json.loads(plan)
    if form != "pretty":
        click.echo(json.dumps(document, indent=4, ensure_ascii=False))
        return
    queries = document["queries"] if document["meta"]["type"] == "script" else [document]
    for number, query in enumerate(queries):
        if len(queries) > 1:
            click.echo(f"Query {number}:")
        for each in query["Plan"].get("Plans", ()):
            for line in _lines(each, ()):
                click.echo(line)


def _lines(node: Mapping[str, Any], offsets: Sequence[str]) -> Iterator[str]:
    head = "".join(offsets)
    branch = ("├──" if offsets[-1] == _EDGE else "└──") if offsets else ""
    prefix = "".join(offsets[:-1]) + branch
    if "Operators" in node:
        for operator in node["Operators"]:
            details = ", ".join(f"{key}: {_text(operator[key])}" for key in sorted(operator) if key != "Name")
            yield f"{prefix}{operator['Name']} ({details})" if details else f"{prefix}{operator['Name']}"
    elif node.get("PlanNodeType") == "Connection":
        yield f"{prefix}<{node['Node Type']}>"
    else:
        yield f"{prefix}{node['Node Type']}"
    for key in ("CTE Name", "Tables"):
        if key in node:
            yield f"{head}{key}: {_text(node[key])}"
    inner = node.get("Plans", ())
    for number, each in enumerate(inner):
        yield from _lines(each, (*offsets, _EDGE if number < len(inner) - 1 else _NO_EDGE))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)
