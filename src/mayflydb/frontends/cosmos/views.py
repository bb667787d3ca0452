"""The view of a container: everything that the front end derives from its definition, computed once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from functools import lru_cache, partial
from typing import Any, TypedDict, cast

import msgspec

from mayflydb.engine.budgets import ContainerBudget
from mayflydb.engine.building import entry
from mayflydb.engine.catalog import Index, Node, PartitionRange
from mayflydb.engine.commands import Draft
from mayflydb.engine.scans import Scope
from mayflydb.frontends.cosmos import policies, search, session
from mayflydb.frontends.cosmos.headers import LSN, PARTITION_KEY_RANGE_ID, SESSION_TOKEN
from mayflydb.frontends.cosmos.indexing import APPENDED_PROPERTIES, composite_orders, index_filter
from mayflydb.frontends.cosmos.partition_key import KeyValues, PartitionKeyDefinition
from mayflydb.frontends.cosmos.resources import ContainerLinks, container_links, system_properties
from mayflydb.frontends.cosmos.values import ParsedItem, own_ttl
from mayflydb.frontends.cosmos.wire import Headers, owner_paths
from mayflydb.model.errors import BadRequest, MayflyError
from mayflydb.model.instant import SECOND
from mayflydb.model.order import Order
from mayflydb.model.record import Entry, Record
from mayflydb.query.cosmos_sql import Declarations, index_key

decode_item = msgspec.json.Decoder(dict[str, Any]).decode


class RangeView(msgspec.Struct, frozen=True):
    """A partition key range with its bounds as bytes; `upper` None: the end of the key space."""

    id: str
    lower: bytes
    upper: bytes | None
    definition: PartitionRange


def range_view(definition: PartitionRange) -> RangeView:
    """Build the view of a range from its hexadecimal bounds."""
    upper = None if definition.upper == "FF" else bytes.fromhex(definition.upper)
    return RangeView(definition.id, bytes.fromhex(definition.lower), upper, definition)


@lru_cache(maxsize=256)
def _partial_decoder(names: frozenset[str]) -> Callable[[bytes], dict[str, Any]]:
    """Return a decoder that skips all other properties."""
    kept = TypedDict("kept", dict.fromkeys(names, Any), total=False)  # type: ignore[misc]
    return cast("Callable[[bytes], dict[str, Any]]", msgspec.json.Decoder(kept).decode)


def _index_entries(document: Mapping[str, Any], partition: bytes, indexes: Sequence[Index]) -> tuple[Entry, ...]:
    return tuple(entry(index, index_key(document, index.keys), partition) for index in indexes)


def gone_error(message: str) -> MayflyError:
    """Build the error 410, on which clients read the ranges again."""
    return MayflyError(message, status=410, code_text="Gone", substatus=1002)


class ContainerView:
    """One container at one version of its definition. `budget`: its budget; None: it has none."""

    def __init__(self, node: Node, database: str, budget: ContainerBudget | None = None) -> None:
        self.budget = budget
        self.node = node
        self.id = node.id
        self.known_lsn = 0
        """An lsn that the container has reached. It may be older than the newest."""
        self.database = database
        self.links: ContainerLinks = container_links(node.parent, node.id)
        self.key = PartitionKeyDefinition.from_json(node.body["partitionKey"])
        self.ranges: tuple[RangeView, ...] = tuple(range_view(each) for each in node.definition.ranges)
        self.unique: Sequence[Any] = policies.unique_keys(node.body)
        self.declared = Declarations(
            search.embeddings(node.body),
            policies.computed_properties(node.body),
            node.body.get("geospatialConfig") == {"type": "Geometry"},
            *search.languages(node.body),
        )
        self.composite_orders = composite_orders(node.body["indexingPolicy"])
        live = [index for index in node.definition.indexes if index.state != "dropped"]
        self.indexed_by = frozenset(index.keys for index in live)
        self.ready = {index.keys: index for index in live if index.state == "ready"}
        """The indexes that queries may use, by their keys."""
        self.may_index = index_filter(node.body, self.declared.computed)
        self.unfinished = any(index.state != "ready" for index in node.definition.indexes)
        self._paths = owner_paths(f"dbs/{database}/colls/{node.name}", self.links.rid)
        self._only_range_id = self.ranges[0].id.encode() if len(self.ranges) == 1 else None
        self._token_end = session.render((b"",), self.id, 0)[:-1]  # A token but for its range and its lsn.

    def declarations_with(self, functions: Set[str]) -> Declarations:
        """Return the declarations for a query that may call these user-defined functions."""
        return msgspec.structs.replace(self.declared, functions=functions)

    def draft(self, item: ParsedItem, partition: bytes) -> Draft:
        """Build the record of an item, with its unique entries and index entries."""
        override, refusal = own_ttl(item.doc) if "ttl" in item.doc else (None, None)
        entries = None
        if self.unique:
            # A unique key holds within a logical partition, so the partition is a part of the entry.
            entries = tuple(
                Entry(number, partition + policies.unique_values(item.doc, paths))
                for number, paths in enumerate(self.unique)
            )
        # Index entries are computed in the writer, which alone knows the indexes at the commit.
        return Draft(item.text, override, None, entries, refusal, partial(_index_entries, item.doc, partition))

    @staticmethod
    def index_keys(record: Record, index: Index) -> tuple[bytes]:
        """Return the one key of a stored item in an ordered index."""
        return (index_key(decode_item(record.value), index.keys),)

    def document(self, record: Record) -> dict[str, Any]:
        """Decode a stored item with its system properties, as queries see it."""
        document = decode_item(record.value)
        document.update(system_properties(self.links, record))
        return document

    def document_reader(self, names: frozenset[str] | None) -> Callable[[Record], dict[str, Any]]:
        """Return a decoder of stored items for a query that reads these properties alone (None: all)."""
        if names is None:
            return self.document
        if not names:
            # The document counts, and nothing in it. No query changes a document.
            empty: dict[str, Any] = {}
            return lambda record: empty
        # msgspec does not match names beyond ASCII in typed dictionaries.
        decode = _partial_decoder(names) if all(map(str.isascii, names)) else decode_item
        if names.isdisjoint(APPENDED_PROPERTIES):
            return lambda record: decode(record.value)
        links, only_time = self.links, names.isdisjoint(APPENDED_PROPERTIES - {"_ts"})

        def read_both(record: Record) -> dict[str, Any]:
            document = decode(record.value)
            if only_time:
                document["_ts"] = record.written // SECOND
            else:
                document.update(system_properties(links, record))
            return document

        return read_both

    def range_of(self, partition: bytes) -> RangeView:
        """Return the range that holds a logical partition."""
        for each in self.ranges:
            if each.upper is None or partition < each.upper:
                return each
        return self.ranges[-1]

    def range_positions(self, scope: Scope) -> range:
        """Return the positions in `ranges` of the ranges that hold a scope."""
        if self._only_range_id is not None:
            return range(1)
        first = self.ranges.index(self.range_of(scope.lower))
        after = (
            n
            for n, each in enumerate(self.ranges)
            if n > first and scope.upper is not None and scope.upper <= each.lower
        )
        return range(first, next(after, len(self.ranges)))

    def range_by_id(self, id: str) -> RangeView:
        """Return the range that a header names, as `id` or `rid of the container,id`; Gone for a split or unknown range."""
        id = id.rpartition(",")[2]
        for each in self.ranges:
            if each.id == id:
                return each
        raise gone_error(f"The partition key range '{id}' is gone.")

    def range_or_ancestor(self, id: str) -> RangeView:
        """Return a range, or the whole of a range that was split. Gone for an unknown id."""
        parts = [each for each in self.ranges if id == each.id or id in each.definition.parents]
        if not parts:
            raise gone_error(f"The partition key range '{id}' is gone.")
        whole = PartitionRange(id, parts[0].definition.lower, parts[-1].definition.upper)
        return RangeView(id, parts[0].lower, parts[-1].upper, whole)

    def parse_partition(self, header: bytes | None) -> bytes:
        """Return the logical partition that a key header names; BadRequest without a header."""
        if header is None:
            raise BadRequest("PartitionKey value must be supplied for this operation.")
        return self.key.parse_partition(header)

    def scope_of_key(self, values: KeyValues) -> Scope:
        """Return the scope of a full key, or of all keys below the first values of a hierarchical key."""
        if len(values) == len(self.key.paths):
            partition = self.key.logical_partition(values)
            return Scope.of_partition(partition)
        lower, upper = self.key.prefix_range(values)
        return Scope(lower, upper, Order.HASHED)

    def scope_of_range(self, within: RangeView) -> Scope:
        """Return the scope of one range, in creation order."""
        return Scope(within.lower, within.upper, Order.CREATED)

    def scope_after(self, scope: Scope) -> Scope | None:
        """Return the scope of the range behind a scope that ends with a range; None: it is the last."""
        return None if scope.upper is None else self.scope_of_range(self.range_of(scope.upper))

    def item_headers(self, partition: bytes | None, lsn: int) -> Headers:
        """Return session token, range id and paths. Clients keep the token under the container's name and rid.

        Without the id of the range, the Python client assumes a new range and reads all ranges again.
        """
        range_id = self._only_range_id
        if range_id is None and partition is not None:
            range_id = self.range_of(partition).id.encode()
        if range_id is not None:
            return self._range_headers(range_id, lsn)
        return [*self.progress_headers(lsn), *self._paths]

    def progress_headers(self, lsn: int) -> Headers:
        """Return the session token of all ranges, and the lsn that they have reached."""
        ids = [each.id.encode() for each in self.ranges]
        return [(SESSION_TOKEN, session.render(ids, self.id, lsn)), (LSN, b"%d" % lsn)]

    def _range_headers(self, id: bytes, lsn: int) -> Headers:
        number = b"%d" % lsn
        token = id + self._token_end + number
        return [(SESSION_TOKEN, token), (PARTITION_KEY_RANGE_ID, id), (LSN, number), *self._paths]

    def scope_headers(self, scope: Scope, lsn: int, named_range: str | None = None) -> Headers:
        """Return the headers of a feed or query, with a range id only if one range holds the whole scope.

        `named_range`: the range that the client named. If it was split since, the answer names it alone, and the client
        finishes its query there instead of beginning it again in the children.
        """
        end = self.range_of(scope.lower).upper
        within = end is None or (scope.upper is not None and scope.upper <= end)
        if (
            not within
            and named_range is not None
            and any(named_range in each.definition.parents for each in self.ranges)
        ):
            return self._range_headers(named_range.encode(), lsn)
        return self.item_headers(scope.lower if within else None, lsn)
