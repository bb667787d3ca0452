"""Rows as records. A record's key is the encoded primary key, and its value an array of values by column number.

The array is as long as the table had columns, dropped ones included, when the row was written. A newer column has its
default in older rows. MessagePack has no numbers for Decimal and DyNumber, which are stored as bytes and as text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from hashlib import blake2b
from operator import itemgetter
from struct import Struct
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

# A record:       key         encode_key(primary key)     20 <body> | 20 <body> | ..
#                 partition   blake2b(key), 8 bytes
#                 value       MessagePack array           93 | 01 | A1 61 | C0        (1, "a", NULL)
# An entry's key: up to MAX_ENTRY_KEY_BYTES               key | partition
#                 longer                                  PREFIX_BYTES of the key | blake2b(key), 32 bytes | partition
#                 of a unique index                       as above, with 8 zero bytes in place of the partition
MAX_ENTRY_KEY_BYTES: Final = LONGEST_ORDERED - HASH_BYTES
"""The longest key that fits into an index entry, in bytes."""

PREFIX_BYTES: Final = MAX_ENTRY_KEY_BYTES - 32
"""An entry holds this prefix of a longer key, and a digest of the whole key.

So entries stay unique, and keys with different prefixes keep their order.
"""

MAX_LAYOUTS: Final = 4096
"""Tables whose layouts are cached, dropped tables included."""

SCHEME_CHANGED: Final = "A concurrent change of the table changed its columns."

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder().decode
_unpack_rows = msgspec.msgpack.Decoder(list[tuple[Any, ...]]).decode
_ARRAY_HEAD: Final = Struct(">BI").pack
"""The head of an array of many rows, which are decoded in one call."""

Values = list[Value]
"""A row by column number."""


class WriteNote(msgspec.Struct, frozen=True, array_like=True):
    """The facts that a changefeed tells of a write beside the row. `replaced`: by REPLACE. `columns`: those that were given."""

    replaced: bool
    columns: tuple[int, ...]


encode_note = _pack
decode_note = msgspec.msgpack.Decoder(WriteNote).decode


def partition_of(key: bytes) -> bytes:
    """Return the partition of the record with this key."""
    # YDB's tables have no partition key, so each row is a partition of its own.
    return blake2b(key, digest_size=HASH_BYTES).digest()


def shorten_key(key: bytes) -> bytes:
    """Return a key as it stands in entries: whole, or prefix and digest."""
    return key if len(key) <= MAX_ENTRY_KEY_BYTES else key[:PREFIX_BYTES] + blake2b(key, digest_size=32).digest()


def is_ordered_exactly(key: bytes) -> bool:
    """True if entries with this key are in the key's own order. Longer keys are ordered by their prefix only."""
    # Keys from PREFIX_BYTES to MAX_ENTRY_KEY_BYTES are stored whole, but lie between shortened keys with the same
    # prefix, whose digests are in no order.
    return len(key) < PREFIX_BYTES


def _decimal_bytes(value: int) -> bytes:
    return value.to_bytes(16, "big", signed=True)


def _decimal_of(stored: bytes) -> int:
    return int.from_bytes(stored, "big", signed=True)


ValueCoder = tuple[Callable[[Any], Any], Callable[[Any], Any]]


def _value_coder(type: Type) -> ValueCoder | None:
    """Return the functions that convert a value of this type to its stored form and back; None if values are stored
    unchanged.
    """
    if isinstance(bare(type), DecimalType):
        return _decimal_bytes, _decimal_of
    return (str, Decimal) if bare(type) == DYNUMBER else None


class _IndexColumns(NamedTuple):
    """The columns of an index, and the key columns that are not among them."""

    numbers: tuple[int, ...]
    types: tuple[Type, ...]
    key_rest: tuple[int, ...]
    key_rest_types: tuple[Type, ...]
    key: Callable[[Sequence[Value]], bytes]
    """Encodes the values of all these columns."""


class RowLayout:
    """Converts rows of a table under one definition of it."""

    __slots__ = (
        "_coders",
        "_default_row",
        "_index_columns",
        "_key",
        "_key_numbers",
        "_key_types",
        "_ttl_cache",
        "numbers",
        "view",
        "width",
    )

    def __init__(self, view: TableView) -> None:
        self.view = view
        self.width = view.body.numbered
        self.numbers: dict[str, int] = dict(zip((c.name for c in view.table.columns), view.numbers, strict=True))
        types = {column.name: column.type for column in view.table.columns}
        self._index_columns: dict[int, _IndexColumns] = {}
        self._key_numbers = tuple(self.numbers[name] for name in view.table.key)
        self._key_types = tuple(types[name] for name in view.table.key)
        self._key = key_encoder(self._key_types)
        found = ((self.numbers[name], _value_coder(type)) for name, type in types.items())
        self._coders = tuple((number, coder) for number, coder in found if coder is not None)
        self._default_row = self._build_default_row()
        self._ttl_cache: tuple[Definition, tuple[int, int, str, str | None] | None] | None = None

    def _build_default_row(self) -> Values:
        blank: Values = [None] * self.width
        for column, number in zip(self.view.table.columns, self.view.numbers, strict=True):
            blank[number] = column.default if column.has_default else None
        return blank

    # --- rows and bytes ------------------------------------------------------------------------------------------------

    def default_row(self) -> Values:
        """Return a new row in which every column has its default."""
        return self._default_row.copy()

    def encode(self, values: Values) -> bytes:
        """Return the value of a row's record."""
        if self._coders:
            values = values.copy()
            for number, (store, _) in self._coders:
                if values[number] is not None:
                    values[number] = store(values[number])
        return _pack(values)

    def decode(self, value: bytes) -> Values:
        """Return the row in a record's value."""
        values: Values = _unpack(value)
        stored_width = len(values)
        # The row is older than some columns. Defaults are values already, so they are not loaded from a stored form.
        if stored_width < self.width:
            values += self._default_row[stored_width:]
        for number, (_, load) in self._coders:
            if number < stored_width and values[number] is not None:
                values[number] = load(values[number])
        return values

    def rows_decoder(self, columns: Sequence[str]) -> Callable[[Sequence[bytes]], list[Row]]:
        """Return a function that takes these columns, in this order, out of the rows in many records' values.

        KeyError for an unknown column.
        """
        pick, numbers = self.column_getter(columns), [self.numbers[name] for name in columns]
        width, decode = self.width, self.decode
        is_whole, is_plain = numbers == list(range(width)), not self._coders

        def decode_rows(values: Sequence[bytes]) -> list[Row]:
            if not numbers:
                return [()] * len(values)
            if is_plain and len(values) > 1:
                rows = _unpack_rows(_ARRAY_HEAD(0xDD, len(values)) + b"".join(values))
                # A row is shorter if it is older than some columns.
                if set(map(len, rows)) == {width}:
                    return rows if is_whole else list(map(pick, rows))
            return [pick(decode(value)) for value in values]

        return decode_rows

    def column_getter(self, columns: Sequence[str]) -> Callable[[Sequence[Value]], Row]:
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
        columns = self._columns_of(index)
        return (*columns.types, *columns.key_rest_types)

    def full_key(self, index: Index, key: bytes, values: Values) -> bytes:
        """Return the full key of a row in an index, not shortened. `key`: the key of the row's record."""
        if is_primary(index):
            return key
        columns = self._columns_of(index)
        return columns.key([values[number] for number in (*columns.numbers, *columns.key_rest)])

    def _columns_of(self, index: Index) -> _IndexColumns:
        known = self._index_columns.get(index.number)
        if known is None:
            types = {column.name: column.type for column in self.view.table.columns}
            names: tuple[str, ...] = tuple((index.spec or {}).get("columns", ()))
            rest = [name for name in self.view.table.key if name not in names]
            own_types, rest_types = (tuple(types[name] for name in those) for those in (names, rest))
            known = self._index_columns[index.number] = _IndexColumns(
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
            columns = self._columns_of(index)
            own = [values[number] for number in columns.numbers]
            if None not in own:
                return shorten_key(encode_key(columns.types, own))
        return shorten_key(self.full_key(index, key, values))

    def keys(self, record: Record, index: Index) -> Sequence[bytes]:
        """Return the keys of a record in an index, for the engine's index builds: always one."""
        values = [] if is_primary(index) else self.decode(record.value)
        return (self.entry_key(index, record.key, values),)

    def entries(self, indexes: Iterable[Index], key: bytes, values: Values) -> tuple[Entry, ...]:
        """Return the entries of a row in these indexes."""
        partition = partition_of(key)
        return tuple([entry(index, self.entry_key(index, key, values), partition) for index in indexes])

    # --- records to be -------------------------------------------------------------------------------------------------

    def draft(self, values: Values, key: bytes, note: bytes | None = None) -> Draft:
        """Return the record of a row with its entries and dates. `note`: an encoded WriteNote."""
        return Draft(
            self.encode(values),
            remembered=note,
            indexed=lambda indexes: self.entries(indexes, key, values),
            dates=lambda definition: self.dates(definition, values),
        )

    def dates(self, definition: Definition, values: Values) -> Dates:
        """Return the date in a row's TTL column, under the definition that the writing transaction sees.

        WriteConflict if that definition has other columns than this layout.
        """
        # The writer passes the same object until the definition changes. Comparing identities costs nothing on the way
        # of each row.
        if self._ttl_cache is None or self._ttl_cache[0] is not definition:
            self._ttl_cache = definition, self._resolve_ttl(definition)
        ttl = self._ttl_cache[1]
        if ttl is None:
            return ()
        slot, number, type_name, unit = ttl
        date = anchor_of(type_name, unit, values[number])
        return () if date is None else ((slot, date),)

    def _resolve_ttl(self, definition: Definition) -> tuple[int, int, str, str | None] | None:
        body = msgspec.convert(definition.body, TableBody)
        # The row was encoded by the columns of this layout, and the table has others now.
        if body.columns != self.view.body.columns or body.key != self.view.body.key:
            raise WriteConflict(SCHEME_CHANGED, container=self.view.node.id, scheme=True)
        # A slot that is being removed takes no new dates, or they would be left behind.
        live_slots = {slot.number for slot in definition.slots if slot.state != "dropped"}
        if body.ttl is None or body.ttl.slot not in live_slots:
            return None
        column = next(column for column in body.columns if column.name == body.ttl.column)
        return body.ttl.slot, column.number, column.type.removesuffix("?"), body.ttl.unit


def index_keys_getter(view: TableView) -> KeysOf:
    """Return the function that gives the keys of a table's records in any of its indexes."""
    return RowLayout(view).keys


class RowLayouts:
    """A cache of layouts, by table. A layout is replaced when the definition of its table changes."""

    def __init__(self) -> None:
        self._known: dict[int, RowLayout] = {}

    def of(self, view: TableView) -> RowLayout:
        """Return the layout of a table."""
        known = self._known.get(view.node.id)
        if known is None or known.view is not view:
            if len(self._known) >= MAX_LAYOUTS:
                # Layouts are cheap to build, so no order of use is kept.
                self._known.clear()
            known = self._known[view.node.id] = RowLayout(view)
        return known
