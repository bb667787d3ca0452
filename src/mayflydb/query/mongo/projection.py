"""Projections: the selection of fields of documents, and computed fields."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import msgspec

from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.filter import Filter
from mayflydb.query.mongo.paths import Parts
from mayflydb.query.mongo.projection_spec import (
    ArraySlice,
    ComputedField,
    ElementMatch,
    FieldFlag,
    Leaf,
    PositionalField,
    Tree,
    parse_projection,
)
from mayflydb.query.mongo.raw import select_fields
from mayflydb.query.mongo.values import MISSING, Document, Value, decode, encode_computed


class Projection(msgspec.Struct, frozen=True):
    """A compiled projection. `select`: does the same to an encoded document; None: it cannot, or not for this document."""

    apply: Callable[[Document], Document]
    select: Callable[[bytes], bytes | None] | None = None

    def encode(self, raw: bytes) -> bytes:
        """Apply the projection to an encoded document, which is decoded only if that is needed."""
        found = None if self.select is None else self.select(raw)
        return encode_computed(self.apply(decode(raw))) if found is None else found


def compile_projection(
    spec: Document,
    env: Env,
    filter: Filter | None = None,
    score: Callable[[Document], float] | None = None,
    find: bool = True,
) -> Projection:
    """Compile a projection of find or, with `find=False`, of a pipeline, which has no `$slice`, `$elemMatch` or positional `$`.

    `filter`: the query, for a positional `$`. `score`: the text score of a document, for `$meta`.
    MqlError with the server's codes, 31249 to 31395.
    """
    if not spec:
        return Projection(lambda document: document)
    parsed = parse_projection(spec, env, filter, score, find)
    tree, inclusion = parsed.tree, parsed.inclusion
    # Whole top-level fields only: such projections need no walk through the tree.
    simple = all(isinstance(leaf, FieldFlag) for leaf in tree.values())
    if simple and inclusion:
        names = frozenset(name for name, leaf in tree.items() if leaf == FieldFlag(True))
        return Projection(lambda document: {n: v for n, v in document.items() if n in names}, _select(names, True))
    if simple:
        dropped = frozenset(tree)
        return Projection(
            lambda document: {n: v for n, v in document.items() if n not in dropped}, _select(dropped, False)
        )
    walk = _Projector(tree, inclusion)
    apply: Callable[[Document], Document] = walk.document
    if parsed.positional is not None:
        apply = _apply_positional(apply, parsed.positional, filter)
    return Projection(apply)


def _select(names: Collection[str], kept: bool) -> Callable[[bytes], bytes | None]:
    encoded = frozenset(name.encode("utf-8", "surrogateescape") for name in names)
    return lambda raw: select_fields(raw, encoded, kept)


class _Projector(msgspec.Struct, frozen=True):
    """Applies the tree of a projection to documents."""

    tree: Tree
    inclusion: bool

    def document(self, document: Document) -> Document:
        """Project a whole document."""
        return self.fields(document, self.tree, document)

    def fields(self, fields: Document, tree: Tree, root: Document) -> Document:
        """Project the fields of one document within the root."""
        out: Document = {}
        for name, value in fields.items():
            leaf = tree.get(name)
            if leaf is None:
                if not self.inclusion:
                    out[name] = value
                continue
            kept = self.value(value, leaf, root)
            if kept is not MISSING:
                out[name] = kept
        # Computed fields follow the fields of the document, as on the server.
        self._add_computed(out, fields, tree, root)
        return out

    def value(self, value: Value, leaf: Leaf, root: Document) -> Value:
        """Project one field; MISSING for no value. A computed field is added afterwards, unless it replaces an
        existing field.
        """
        if isinstance(leaf, FieldFlag):
            return value if leaf.kept else MISSING
        if isinstance(leaf, ArraySlice):
            return leaf.cut(value) if type(value) is list else value
        if isinstance(leaf, dict):
            return self.project_inner(value, leaf, root)
        if isinstance(leaf, PositionalField):
            return value
        if self.inclusion:
            return MISSING
        return leaf.value(root)

    def project_inner(self, value: Value, tree: Tree, root: Document) -> Value:
        """Project the value under a nested path: a document, or the documents of an array. Scalars remain only in
        exclusions.
        """
        if type(value) is dict:
            return self.fields(value, tree, root)
        if type(value) is list:
            kept = [self.project_inner(each, tree, root) for each in value]
            return [each for each in kept if each is not MISSING]
        if _has_computed_field(tree):
            return self.fields({}, tree, root)
        return MISSING if self.inclusion else value

    def _add_computed(self, out: Document, fields: Document, tree: Tree, root: Document) -> None:
        for name, leaf in tree.items():
            if isinstance(leaf, ComputedField | ElementMatch):
                if self.inclusion or name not in fields:
                    value = leaf.value(root)
                    if value is not MISSING:
                        out[name] = value
            elif isinstance(leaf, dict) and name not in fields and _has_computed_field(leaf):
                out[name] = self.fields({}, leaf, root)


def _has_computed_field(tree: Mapping[str, Leaf]) -> bool:
    return any(
        isinstance(leaf, ComputedField) or (isinstance(leaf, dict) and _has_computed_field(leaf))
        for leaf in tree.values()
    )


# --- positional ------------------------------------------------------------------------------------------------------

_ERROR_PREFIX: Final = "Executor error during find command :: caused by :: positional operator '.$' "


def _apply_positional(
    inner: Callable[[Document], Document], parts: Parts, query: Filter | None
) -> Callable[[Document], Document]:
    assert query is not None

    def apply(document: Document) -> Document:
        return _cut_to_match(inner(document), parts, document, query)

    return apply


def _cut_to_match(projected: Document, parts: Parts, document: Document, query: Filter) -> Document:
    """Cut the first array on a path to the element that the query matched."""
    out = dict(projected)
    holder: Document = out
    for part in parts:
        value: Any = holder.get(part)
        if type(value) is list:
            index = query.find_position(document)
            if index is None:
                raise MqlError(51246, f"{_ERROR_PREFIX}couldn't find a matching element in the array")
            if index >= len(value):
                raise MqlError(51247, f"{_ERROR_PREFIX}element mismatch")
            holder[part] = [value[index]]
            return out
        if type(value) is not dict:
            return out
        # Copied, because a projection shares its values with the document it reads.
        holder[part] = value = dict(value)
        holder = value
    return out
