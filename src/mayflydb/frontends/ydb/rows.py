"""Rows as records. A record's key is the encoded primary key, and its value an array of values by column number.

The array is as long as the table had columns, dropped ones included, when the row was written. A newer column has its
default in older rows. MessagePack has no numbers for Decimal and DyNumber, which are stored as bytes and as text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from hashlib import blake2b
from operator import itemgetter
from typing import Any, Final, NamedTuple

import msgspec

from mayflydb.engine.building import KeysOf, entry
from mayflydb.engine.catalog import Definition, Index
from mayflydb.engine.commands import Draft
from mayflydb.frontends.ydb.tables import TableBody, TableView, is_primary
from mayflydb.frontends.ydb.ttl_columns import anchor_of
from mayflydb.model.errors import WriteConflict
from mayflydb.model.order import HASH_BYTES, LONGEST_ORDERED
from mayflydb.model.record import Dates, Entry, Record
from mayflydb.query.yql.keys import encode_key, key_encoder
from mayflydb.query.yql.schemas import Row
from mayflydb.query.yql.types import DYNUMBER, DecimalType, Type, Value, bare

WIDEST: Final = LONGEST_ORDERED - HASH_BYTES
"""The longest key that fits into an index entry, in bytes."""

KEPT: Final = WIDEST - 32
"""An entry holds this prefix of a longer key, and a digest of the whole key.

So entries stay unique, and keys with different prefixes keep their order.
"""

MOST_LAYOUTS: Final = 4096
"""Tables whose layouts are cached, dropped tables included."""

SCHEME_CHANGED: Final = "The table's columns were changed by somebody else."

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode

Values = list[Value]
"""A row by column number."""


def partition_of(key: bytes) -> bytes:
    """Return the partition of the record with this key."""
    return blake2b(key, digest_size=HASH_BYTES).digest()


def cut(key: bytes) -> bytes:
    """Return a key as it stands in entries: whole, or prefix and digest."""
    return key if len(key) <= WIDEST else key[:KEPT] + blake2b(key, digest_size=32).digest()


def is_sorted_by(key: bytes) -> bool:
    """True if entries with this key are in the key's own order. Longer keys are ordered by their prefix only."""
    return len(key) < KEPT


def _decimal_bytes(value: int) -> bytes:
    return value.to_bytes(16, "big", signed=True)


def _decimal_of(stored: bytes) -> int:
    return int.from_bytes(stored, "big", signed=True)


Coder = tuple[Callable[[Any], Any], Callable[[Any], Any]]


def _coder(type: Type) -> Coder | None:
    """Return the functions that convert a value of this type to its stored form and back; None if values are stored
    unchanged.
    """
    if isinstance(bare(type), DecimalType):
        return _decimal_bytes, _decimal_of
    return (str, Decimal) if bare(type) == DYNUMBER else None


class _By(NamedTuple):
    """The columns of an index, and the key columns that are not among them."""

    numbers: tuple[int, ...]
    types: tuple[Type, ...]
    rest: tuple[int, ...]
    rest_types: tuple[Type, ...]
    key: Callable[[Sequence[Value]], bytes]
    """Encodes the values of all these columns."""


class Layout:
    """Converts rows of a table under one definition of it."""

    __slots__ = (
        "_by",
        "_coders",
        "_dated",
        "_key",
        "_key_numbers",
        "_key_types",
        "_tail",
        "numbers",
        "view",
        "width",
    )

    def __init__(self, view: TableView) -> None:
        self.view = view
        self.width = view.body.numbered
        self.numbers: dict[str, int] = dict(zip((c.name for c in view.table.columns), view.numbers, strict=True))
        types = {column.name: column.type for column in view.table.columns}
        self._by: dict[int, _By] = {}
        self._key_numbers = tuple(self.numbers[name] for name in view.table.key)
        self._key_types = tuple(types[name] for name in view.table.key)
        self._key = key_encoder(self._key_types)
        found = ((self.numbers[name], _coder(type)) for name, type in types.items())
        self._coders = tuple((number, coder) for number, coder in found if coder is not None)
        self._tail = self._blank()
        self._dated: tuple[Definition, tuple[int, int, str, str | None] | None] | None = None

    def _blank(self) -> Values:
        blank: Values = [None] * self.width
        for column, number in zip(self.view.table.columns, self.view.numbers, strict=True):
            blank[number] = column.default if column.has_default else None
        return blank

    # --- rows and bytes ------------------------------------------------------------------------------------------------

    def blank(self) -> Values:
        """Return a new row in which every column has its default."""
        return self._tail.copy()

    def encode(self, values: Values) -> bytes:
        """Return the value of a row's record."""
        if self._coders:
            values = values.copy()
            for number, (store, _) in self._coders:
                if values[number] is not None:
                    values[number] = store(values[number])
        return _encode(values)

    def decode(self, value: bytes) -> Values:
        """Return the row in a record's value."""
        values: Values = _decode(value)
        known = len(values)
        if known < self.width:
            values += self._tail[known:]
        for number, (_, load) in self._coders:
            if number < known and values[number] is not None:
                values[number] = load(values[number])
        return values

    def picker(self, columns: Sequence[str]) -> Callable[[Values], Row]:
        """Return a function that takes these columns out of a row, in this order. KeyError for an unknown column."""
        numbers = [self.numbers[name] for name in columns]
        if not numbers:
            return lambda values: ()
        if len(numbers) == 1:
            only = numbers[0]
            return lambda values: (values[only],)
        return itemgetter(*numbers)

    # --- keys ----------------------------------------------------------------------------------------------------------

    def key_of(self, values: Values) -> bytes:
        """Return the key of a row's record."""
        return self._key([values[number] for number in self._key_numbers])

    def key_from(self, values: Sequence[Value]) -> bytes:
        """Encode the values of the first key columns. The values of all key columns give a record's key."""
        return self._key(values) if len(values) == len(self._key_types) else encode_key(self._key_types, values)

    @property
    def key_width(self) -> int:
        """The number of key columns."""
        return len(self._key_numbers)

    def index_types(self, index: Index) -> tuple[Type, ...]:
        """Return the types of the columns that order an index: its own columns, then the other key columns."""
        if is_primary(index):
            return self._key_types
        by = self._of(index)
        return (*by.types, *by.rest_types)

    def full_key(self, index: Index, key: bytes, values: Values) -> bytes:
        """Return the full key of a row in an index, not shortened. `key`: the key of the row's record."""
        if is_primary(index):
            return key
        by = self._of(index)
        return by.key([values[number] for number in (*by.numbers, *by.rest)])

    def _of(self, index: Index) -> _By:
        known = self._by.get(index.number)
        if known is None:
            types = {column.name: column.type for column in self.view.table.columns}
            names: tuple[str, ...] = tuple((index.spec or {}).get("columns", ()))
            rest = [name for name in self.view.table.key if name not in names]
            own_types, rest_types = (tuple(types[name] for name in those) for those in (names, rest))
            known = self._by[index.number] = _By(
                tuple(self.numbers[name] for name in names),
                own_types,
                tuple(self.numbers[name] for name in rest),
                rest_types,
                key_encoder((*own_types, *rest_types)),
            )
        return known

    def entry_key(self, index: Index, key: bytes, values: Values) -> bytes:
        """Return the key of a row's entry in an index.

        In a unique index the key has the index's columns alone, unless one of them is NULL: NULLs are not equal to each
        other.
        """
        if index.unique:
            by = self._of(index)
            own = [values[number] for number in by.numbers]
            if None not in own:
                return cut(encode_key(by.types, own))
        return cut(self.full_key(index, key, values))

    def keys(self, record: Record, index: Index) -> Sequence[bytes]:
        """Return the keys of a record in an index, for the engine's index builds: always one."""
        values = [] if is_primary(index) else self.decode(record.value)
        return (self.entry_key(index, record.key, values),)

    def entries(self, indexes: Iterable[Index], key: bytes, values: Values) -> tuple[Entry, ...]:
        """Return the entries of a row in these indexes."""
        partition = partition_of(key)
        return tuple([entry(index, self.entry_key(index, key, values), partition) for index in indexes])

    # --- records to be -------------------------------------------------------------------------------------------------

    def draft(self, values: Values, key: bytes) -> Draft:
        """Return the record of a row with its entries and dates."""
        return Draft(
            self.encode(values),
            indexed=lambda indexes: self.entries(indexes, key, values),
            dates=lambda definition: self.dates(definition, values),
        )

    def dates(self, definition: Definition, values: Values) -> Dates:
        """Return the date in a row's TTL column, under the definition that the writing transaction sees.

        WriteConflict if that definition has other columns than this layout.
        """
        if self._dated is None or self._dated[0] is not definition:
            self._dated = definition, self._ttl_of(definition)
        ttl = self._dated[1]
        if ttl is None:
            return ()
        slot, number, type_name, unit = ttl
        date = anchor_of(type_name, unit, values[number])
        return () if date is None else ((slot, date),)

    def _ttl_of(self, definition: Definition) -> tuple[int, int, str, str | None] | None:
        body = msgspec.convert(definition.body, TableBody)
        if body.columns != self.view.body.columns or body.key != self.view.body.key:
            raise WriteConflict(SCHEME_CHANGED, container=self.view.node.id, scheme=True)
        standing = {slot.number for slot in definition.slots if slot.state != "dropped"}
        if body.ttl is None or body.ttl.slot not in standing:
            return None
        column = next(column for column in body.columns if column.name == body.ttl.column)
        return body.ttl.slot, column.number, column.type.removesuffix("?"), body.ttl.unit


def keys_of(view: TableView) -> KeysOf:
    """Return the function that gives the keys of a table's records in any of its indexes."""
    return Layout(view).keys


class Layouts:
    """A cache of layouts, by table. A layout is replaced when the definition of its table changes."""

    def __init__(self) -> None:
        self._known: dict[int, Layout] = {}

    def of(self, view: TableView) -> Layout:
        """Return the layout of a table."""
        known = self._known.get(view.node.id)
        if known is None or known.view is not view:
            if len(self._known) >= MOST_LAYOUTS:
                self._known.clear()
            known = self._known[view.node.id] = Layout(view)
        return known
