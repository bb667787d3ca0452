"""Every parser of bytes or text that clients reach: what it is given, examples, and the errors that it may raise."""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from typing import Any, cast

import bson
import msgspec
from google.protobuf.message import DecodeError

from frontends.cosmos import hybrid
from frontends.cosmos.direct import wire as direct
from mayflydb.frontends.cosmos import values
from mayflydb.frontends.cosmos.batch_formats import hybrid_row
from mayflydb.frontends.cosmos.binary_json.reader import to_text
from mayflydb.frontends.cosmos.direct.connection import DirectConnection
from mayflydb.frontends.mongo.protocol import messages as wire
from mayflydb.frontends.ydb import descriptors
from mayflydb.frontends.ydb.values import decode_typed_value
from mayflydb.http.connection import Connection, HttpWork, Limits
from mayflydb.http.http2 import Declining
from mayflydb.http.messages import Request, Response
from mayflydb.model.errors import MayflyError
from mayflydb.query.cosmos_sql import Context, compile_query, run
from mayflydb.query.mongo import raw
from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.expressions import OPERATORS as EXPRESSIONS
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.filter import compile_filter
from mayflydb.query.mongo.stages import STAGES
from mayflydb.query.mongo.update import compile_update
from mayflydb.query.mongo.update.compile import MODIFIERS
from mayflydb.query.mongo.values import decode, encode
from mayflydb.query.yql.faults import Fault
from mayflydb.query.yql.parser import parse as parse_yql
from query.mongo.pipelines import NOW
from query.mongo.pipelines import run as run_pipeline


class Target(msgspec.Struct, frozen=True):
    """`parse` takes one input and raises one of `errors`, or nothing."""

    parse: Callable[[bytes], Any]
    examples: Sequence[bytes]
    errors: tuple[type[Exception], ...]
    words: Sequence[bytes]
    binary: bool = False


# --- HTTP --------------------------------------------------------------------------------------------------------------


class Wire(asyncio.Transport):
    """A transport that keeps nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        pass

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    abort = close

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


async def answer(request: Request) -> Response:
    return Response(200, b"" if request.ended else b"partly")


@cache
def loop() -> asyncio.AbstractEventLoop:
    """A loop for timers; it never runs, since the handler waits for nothing."""
    return asyncio.new_event_loop()


def http(data: bytes) -> None:
    work = _work()
    feed(data, Connection(work, "http", loop().time() + 60, loop()))


def rntbd(data: bytes) -> None:
    """Frames of Cosmos DB's direct mode behind the one that opens a connection."""
    feed(direct.CONTEXT + data, DirectConnection(_work(), loop(), loop().time() + 60))


def _work() -> HttpWork:
    work = HttpWork(answer, Limits())
    # Answers are sent at the end of a turn, which never comes.
    work.post = lambda connection: None  # type: ignore[method-assign]
    return work


def feed(data: bytes, connection: Connection | DirectConnection) -> None:
    transport = Wire()
    connection.connection_made(transport)
    middle = len(data) // 2
    for piece in (data[:middle], data[middle:]):
        if piece and not transport.closed:
            connection.data_received(piece)
    connection.connection_lost(None)


def http2(data: bytes) -> None:
    declining = Declining()
    declining.feed(data[: len(data) // 3])
    declining.feed(data[len(data) // 3 :])


RNTBD = [
    direct.request(1, direct.ITEM, direct.READ, "d/c/i", pk="p"),
    direct.request(2, direct.ITEM, direct.CREATE, "d/c", {"id": "1", "pk": "p"}, pk="p")
    + direct.request(3, direct.ITEM, direct.FEED, "d/c", range_id="0"),
    direct.request(
        4,
        direct.ITEM,
        direct.QUERY,
        "d/c",
        {"query": "SELECT * FROM c"},
        direct.token(0x10, 0, 2) + direct.token(0xC4, 0, 3),
        range_id="0",
    ),
    direct.request(
        5,
        1,
        direct.READ,
        "",
        None,
        direct.token(0, 0x0B, bytes(16)) + direct.token(0x62, 0x0B, "05C1") + direct.token(0xFFF0, 0x0E, 0.5),
    ),
]
RNTBD_WORDS = [
    direct.token(2, 0, 1),
    direct.token(0x15, 8, "d"),
    direct.token(0x4D, 2, 7),
    direct.token(0x59, 3, 10),
    b"\xff\xff\xff\xff",
    b"\x18\0\0\0",
    b"\x0a\0\0\0",
]
HTTP = [
    b"GET /dbs/d/colls/c/docs/1?x=%20 HTTP/1.1\r\nHost: localhost\r\nx-ms-date: a\r\n\r\n",
    b'POST /dbs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{"id":"d"}GET / HTTP/1.1\r\nHost: a\r\n\r\n',
    b"PUT /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4;x=y\r\nabcd\r\n0\r\nTrailer: x\r\n\r\n",
    b"GET http://localhost:1/a HTTP/1.0\r\nConnection: keep-alive\r\nUpgrade: h2c\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0",
]
HTTP_WORDS = [
    b"\r\n",
    b"\r\n\r\n",
    b"HTTP/1.1",
    b"Content-Length: 5\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Host: b\r\n",
    b"0\r\n",
]
HTTP2 = [
    b"\0\0\0\4\0\0\0\0\0",
    b"\0\0\5\1\5\0\0\0\1abcde",
    b"\0\0\4\10\0\0\0\0\0\0\0\1\0",
    b"\0\0\10\6\0\0\0\0\0abcdefgh" * 3,
]

# --- BSON and OP_MSG ---------------------------------------------------------------------------------------------------

DOCUMENT = {
    "find": "c", "filter": {"a": {"$gt": 1, "$lt": 2.5}, "b": ["x", None, True, {"c": b"1"}]}, "$db": "d",
    "id": bson.ObjectId("0" * 24), "at": bson.Timestamp(1, 2), "n": bson.Int64(7), "d": bson.Decimal128("1.5"),
    "r": bson.Regex("a+", "i"), "code": bson.Code("x", {"a": 1}),
}  # fmt: skip
BSON = [bson.encode(DOCUMENT), bson.encode({}), bson.encode({"a": {"b": {"c": [[[1]]]}}})]
BSON_WORDS = [b"\0", b"\x05\0\0\0\0", b"\x10a\0\1\0\0\0", b"\3a\0\5\0\0\0\0", b"\4a\0\5\0\0\0\0", b"$ref\0", b"\xff"]


def bson_document(data: bytes) -> None:
    raw.check_document_size(data)
    raw.check_depth(data)
    list(raw.elements(data))
    encode(decode(data))


def frame(body: bytes, opcode: int = wire.OP_MSG) -> bytes:
    return struct.pack("<iiii", 16 + len(body), 7, 0, opcode) + body


SEQUENCE = b"documents\0" + BSON[1] + BSON[2]
OP_MSG = [
    frame(b"\0\0\0\0\0" + BSON[0]),
    frame(b"\0\0\0\0\0" + BSON[1] + b"\1" + struct.pack("<i", 4 + len(SEQUENCE)) + SEQUENCE),
    frame(b"\0\0\0\0d.$cmd\0\0\0\0\0\1\0\0\0" + BSON[1], wire.OP_QUERY),
    frame(struct.pack("<iiB", wire.OP_MSG, 5 + len(BSON[1]), 0) + b"\0\0\0\0\0" + BSON[1], wire.OP_COMPRESSED),
]


def op_msg(data: bytes) -> None:
    framer = wire.Framer(lambda compressor, packed, size: packed, limit=1 << 20)
    for piece in (data[:20], data[20:]):
        if framer.broken is None:
            for message in framer.feed(piece):
                bson_document(message.body)


# --- MQL ---------------------------------------------------------------------------------------------------------------

MQL_DOCUMENT = {"a": 1, "b": [1, 2, {"c": "x"}], "s": "text", "d": {"e": None}, "at": datetime(2030, 1, 1, tzinfo=UTC)}
FIELDS = [
    "a",
    "b",
    "b.c",
    "s",
    "d.e",
    "$a",
    "$b",
    "$$ROOT",
    "$$this",
    "_id",
    "input",
    "in",
    "as",
    "cond",
    "date",
    "unit",
    "x.$[]",
    "",
]
QUERY_OPERATORS = [
    "$eq", "$gt", "$in", "$nin", "$ne", "$and", "$or", "$nor", "$not", "$elemMatch", "$all", "$size", "$type", "$exists", "$mod",
    "$regex", "$options", "$expr", "$jsonSchema", "$bitsAllSet", "$each", "$sort", "$slice", "$position", "$text",
]  # fmt: skip
OPERATORS = [*QUERY_OPERATORS, *EXPRESSIONS, *MODIFIERS, *STAGES]
VALUES: list[Any] = [
    0,
    1,
    -1,
    2.5,
    None,
    True,
    "x",
    "$a",
    "$b",
    "day",
    [],
    {},
    [1, 2],
    float("nan"),
    1 << 40,
    bson.Int64(3),
    b"b",
    "a+",
    "%Y",
]


def tree(chance: random.Random, depth: int) -> Any:
    """A random value of operators, fields and constants."""
    kind = chance.randrange(5 if depth else 2)
    if kind < 2:
        return chance.choice(VALUES)
    if kind == 2:
        return [tree(chance, depth - 1) for _ in range(chance.randrange(4))]
    names = OPERATORS if kind == 3 else FIELDS
    return {chance.choice(names): tree(chance, depth - 1) for _ in range(chance.choice((1, 1, 2, 3)))}


def mql(data: bytes) -> None:
    """The input is the seed of a filter, an update and a pipeline over one document."""
    chance = random.Random(data)
    operator = {chance.choice([*EXPRESSIONS]): tree(chance, 2)}
    tries: tuple[Callable[[], Any], ...] = (
        lambda: compile_filter({chance.choice([*FIELDS, *QUERY_OPERATORS]): tree(chance, 3)}, Env(NOW)).matches(
            decode(encode(MQL_DOCUMENT))
        ),
        lambda: compile_update({chance.choice([*MODIFIERS]): {"b": tree(chance, 3)}}, Env(NOW)).apply(
            dict(MQL_DOCUMENT), None, False
        ),
        lambda: run_pipeline({"c": [dict(MQL_DOCUMENT)]}, [{"$project": {"x": operator}}]),
        lambda: run_pipeline({"c": [dict(MQL_DOCUMENT)]}, [{chance.choice([*STAGES]): tree(chance, 3)}]),
    )
    for each in tries:
        with suppress(MqlError):
            each()


# --- texts and values --------------------------------------------------------------------------------------------------

SQL = [
    b"SELECT TOP 5 c.id, c.a[0]['b'] AS x FROM c JOIN t IN c.tags WHERE c.n >= @n AND NOT (t = 'x' OR c.z) ORDER BY c.n",
    b"SELECT VALUE {'a': [1, -2.5e3, null], \"b\": c.x ?? 'y'} FROM c WHERE c.s LIKE 'a%' ESCAPE '!' AND c.n IN (1, 2)",
    b"SELECT c.g, COUNT(1) AS n, SUM(c.v) FROM c GROUP BY c.g OFFSET 1 LIMIT 2",
    b"SELECT * FROM c WHERE EXISTS(SELECT VALUE t FROM t IN c.tags WHERE t.x BETWEEN 1 AND 2) AND c.a ? true : false",
    b"SELECT DISTINCT VALUE UPPER(SUBSTRING(c.s, 1, 3)) || 'z' FROM c WHERE ARRAY_CONTAINS(c.a, {'x': 1}, true)",
]
SQL_WORDS = [
    b" SELECT ", b" FROM ", b" WHERE ", b" AND ", b"(", b")", b"'", b'"', b"[", b"]", b"@", b"/*", b"--", b" NOT ", b",", b"c.a",
    b"1e9",    b" VALUE ", b" JOIN ", b" GROUP BY ", b"\\u12",
]  # fmt: skip
DOCUMENTS = [{"id": "1", "a": [{"b": 1}], "n": 3, "tags": ["x", {"x": 1}], "s": "abc", "g": 1, "v": 2}]


def sql(data: bytes) -> None:
    query = compile_query(data.decode("latin-1"), {"@n": 1}, lenient=True)
    if query.ranking is None:
        run(query, DOCUMENTS, Context(0))


YQL = [
    b"DECLARE $id AS Uint64; $x = ($a) -> { RETURN $a + 1; }; SELECT t.*, $x(n) AS y FROM t WHERE id = $id LIMIT 3;",
    b"CREATE TABLE `a/b` (id Uint8, at Date, PRIMARY KEY (id), INDEX i GLOBAL ON (n)) WITH (TTL = Interval('P1D') ON at);",
    b"UPSERT INTO t (id, n) VALUES (1u, -2l), (3, NULL); DELETE FROM t WHERE n IS NULL OR text LIKE 'a%' ESCAPE '!';",
    b"SELECT AsStruct(1 AS a, @@x@@ AS b), <|c: [1, 2]|>, CAST('1' AS Decimal(5, 2)) FROM (SELECT 1) AS q JOIN t USING (id);",
    b"PRAGMA TablePathPrefix = '/local'; SELECT MAX(a) OVER w FROM t WINDOW w AS (PARTITION BY n ORDER BY id ROWS 1 PRECEDING);",
]
YQL_WORDS = [
    *SQL_WORDS,
    b"$",
    b"`",
    b"->",
    b"{",
    b"}",
    b"<|",
    b"|>",
    b"@@",
    b"::",
    b" RETURN ",
    b";",
    b"Optional<",
    b">",
]

JSON = [
    b'{"id":"x","pk":"p","a":[1,-2.5e10,null,true,{"b":"\\u00e9\\n"}],"ttl":5}',
    b'{"query":"SELECT 1","parameters":[{"name":"@x","value":{"a":[]}}]}',
    b'[[[[{"a":{"b":[]}}]]]]',
]
JSON_WORDS = [
    b"{",
    b"}",
    b"[",
    b"]",
    b'"',
    b":",
    b",",
    b"\\u0000",
    b"\\ud800",
    b"1e999",
    b"NaN",
    b"-0",
    b"9" * 320,
    b'"a":1',
]


def protobuf(data: bytes) -> None:
    request = descriptors.message("Ydb.Table.ExecuteDataQueryRequest").FromString(data)
    for each in request.parameters.values():
        decode_typed_value(each)


@cache
def protobufs() -> list[bytes]:
    request = descriptors.message("Ydb.Table.ExecuteDataQueryRequest")(session_id="s")
    request.query.yql_text = "SELECT 1"
    number, items, pair = (request.parameters[name] for name in ("$n", "$list", "$pair"))
    number.type.type_id, number.value.uint64_value = 0x0004, 7
    items.type.list_type.item.optional_type.item.type_id = 0x1200
    items.value.items.add().text_value = "x"
    pair.type.struct_type.members.add(name="a").type.type_id = 0x0001
    pair.value.items.add().int32_value = 1
    return [cast("bytes", request.SerializeToString())]


BINARY_JSON = [
    bytes.fromhex("80 ea 19 81 61 82 706b 2c 7c 03 61 20 08 81 6e e5 04 02 c8 c8 c3 03 81 6f e9 3b d2"),
    bytes.fromhex("80 e3 2100 75") + bytes(range(16)) + bytes.fromhex("71 01 00 666f6f 7a 04 13 53 7e 02 c8 34 00 00"),
    b"\x80" + b"\xe1" * 40 + b"\xe0",
    bytes.fromhex("80 e2 18 f0 d7 03 010203 f1 d9 0100 ffff f2 f0 d8 02 02 01020304 dd 01 ff"),
]
BINARY_JSON_WORDS = [bytes([marker]) for marker in (*range(0x60, 0x80), *range(0xC0, 0x100))] + [
    b"\xf0\xd8",
    b"\xf3\xf1\xda",
]


def binary(data: bytes) -> None:
    reading = to_text(data, 1 << 16)
    # It waits for nothing but its turn, so it needs no loop.
    with suppress(StopIteration):
        while True:
            reading.send(None)


CREATE = {"operationType": "Create", "partitionKey": '["p"]', "resourceBody": b"{}", "minimalReturnPreference": True}
UPSERT = {"operationType": "Upsert", "id": "1", "ifMatch": "x" * 130, "timeToLiveInSeconds": 5, "binaryId": b"1"}
HYBRID_ROW = [hybrid.batch([CREATE, UPSERT]), hybrid.operation_row(CREATE), hybrid.operation_row(UPSERT)]


def rows(data: bytes) -> None:
    """A row gets a record with its checksum around it, without which it would not be read."""
    stream = hybrid.SEGMENT + hybrid.record(data) if data[1:5] == HYBRID_ROW[1][1:5] else data
    hybrid_row.read_operations(stream, values.ItemLimits())


def targets() -> dict[str, Target]:
    """By name."""
    text = (MayflyError,)
    return {
        "http": Target(http, HTTP, (), HTTP_WORDS),
        "rntbd": Target(rntbd, RNTBD, (), RNTBD_WORDS, binary=True),
        "http2": Target(http2, HTTP2, (), [b"\0\0\0", b"PRI"], binary=True),
        "bson": Target(bson_document, BSON, (MqlError,), BSON_WORDS, binary=True),
        "op_msg": Target(op_msg, OP_MSG, (MqlError,), BSON_WORDS, binary=True),
        "protobuf": Target(
            protobuf, protobufs(), (DecodeError, Fault), [b"\x0a", b"\x12\x02", b"\xff\xff\xff\xff\x0f"], binary=True
        ),
        "sql": Target(sql, SQL, text, SQL_WORDS),
        "mql": Target(mql, [b"seed"], (), [b"x"]),
        "yql": Target(lambda data: parse_yql(data.decode("latin-1")), YQL, (Fault,), YQL_WORDS),
        "binary_json": Target(binary, BINARY_JSON, text, BINARY_JSON_WORDS, binary=True),
        "hybrid_row": Target(rows, HYBRID_ROW, text, [b"\x81", b"\x14\x09", b"\xff\xff\xff\xff\x0f"], binary=True),
        "json": Target(lambda data: values.parse_json(data, values.ItemLimits(), 1 << 20), JSON, text, JSON_WORDS),
    }
