"""Window functions."""

from __future__ import annotations

from mayflydb.query.yql.faults import unsupported
from mayflydb.query.yql.plans.binder import Binder
from mayflydb.query.yql.plans.plan import Relation
from mayflydb.query.yql.plans.trees import nodes
from mayflydb.query.yql.syntax import Call, Select


def are_in(tree: Select) -> bool:
    """Whether it calls window functions."""
    return any(isinstance(node, Call) and node.over is not None for node in nodes(tree.items))


def windowed(binder: Binder, relation: Relation, tree: Select) -> tuple[Relation, Binder]:
    for node in nodes(tree.items):
        if isinstance(node, Call) and node.over is not None:
            raise unsupported(f"{node.name} OVER", node.at)
    return relation, binder
