"""The operations of scripts on their collection, decided in the scripts' transaction."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal

import msgspec

from mayflydb.engine import prices
from mayflydb.engine.commands import Command, Mode, Written
from mayflydb.engine.reads import Reads
from mayflydb.engine.scans import Scope
from mayflydb.evaluation.statement import HERE
from mayflydb.frontends.cosmos import continuation, errors, queries
from mayflydb.frontends.cosmos.calls import NOT_FOUND, Account, lsn_of_etag
from mayflydb.frontends.cosmos.errors import message_of
from mayflydb.frontends.cosmos.page_rows import PageStart
from mayflydb.frontends.cosmos.pages import Pager
from mayflydb.frontends.cosmos.resources import Address, etag_matches, item_body, item_etag, item_number
from mayflydb.frontends.cosmos.scripting.functions import find_functions, function_caller, wanted_functions
from mayflydb.frontends.cosmos.scripting.sandbox import TimeBudget, decode_answer
from mayflydb.frontends.cosmos.scripting.transaction import ScriptTransaction
from mayflydb.frontends.cosmos.values import ParsedItem, item_id, parse_item
from mayflydb.model.errors import BadQuery, BadRequest, MayflyError, NotFound
from mayflydb.query.cosmos_sql import compile_query

OTHER_PARTITION: Final = (
    "Requests originating from scripts cannot reference partition keys other than the one for which client request was "
    "submitted."
)
_DEFAULT_PAGE: Final = 100
_MAX_PAGE: Final = 1_000
_EVERYTHING: Final = "SELECT * FROM c"


class ScriptOperation(msgspec.Struct, rename="camel"):
    """One operation as host.js queues it. `id` is an id if `by_name`, else a rid."""

    op: Literal["create", "upsert", "replace", "delete", "read", "query"]
    id: str = ""
    by_name: bool = True
    body: str = ""
    etag: str | None = None
    if_none_match: str | None = None
    keep_id: bool = True
    query: Any = None
    page_size: float | None = None
    continuation: str | None = None


class Collection:
    """The part of a container that a script's transaction may use. `charge`: the cost of the operations in request units."""

    def __init__(self, account: Account, reads: Reads, transaction: ScriptTransaction, time_budget: TimeBudget) -> None:
        self._account = account
        self._reads = reads
        self._transaction = transaction
        self._time_budget = time_budget
        self._view = transaction.view
        self.charge = 0.0
        self._operations: Mapping[str, Callable[[ScriptOperation], Awaitable[bytes]]] = {
            "create": self._store,
            "upsert": self._store,
            "replace": self._replace,
            "delete": self._delete,
            "read": self._read,
            "query": self._query,
        }

    async def run_operation(self, text: str) -> bytes:
        """Run a queued operation; return the answer for host.js, which may be a refusal."""
        try:
            operation = decode_answer(text, ScriptOperation)
            return await self._operations[operation.op](operation)
        # A refusal goes to the callback of the operation: the script may handle it and go on.
        except MayflyError as error:
            self.charge += prices.MISS
            return _encode_error(error)

    # --- writes ------------------------------------------------------------------------------------------------------------

    def parse_document(self, text: bytes) -> ParsedItem:
        """Parse a document that the script writes; BadRequest for another partition."""
        item = parse_item(text, self._account.limits)
        values = self._view.key.extract(item.doc)
        self._view.key.check(values)
        if self._view.key.logical_partition(values) != self._transaction.partition:
            raise BadRequest(OTHER_PARTITION)
        return item

    async def _write(self, mode: Mode, item: ParsedItem, if_match: int | None, address: Address | None = None) -> bytes:
        """Create, upsert or replace a document. `address`: that of the replaced document, whose id may change."""
        id = item_id(item.doc, self._account.limits).encode()
        partition = self._transaction.partition
        key, seq = address or (id, None)
        draft = self._view.draft(item, partition)
        return self._encode_item(await self.run(Command(mode, partition, key, draft, if_match, id, seq)))

    async def run(self, command: Command) -> Written:
        """Decide a command and add its cost."""
        written = await self._transaction.run(command)
        self.charge += prices.charge(written)
        return written

    async def _store(self, operation: ScriptOperation) -> bytes:
        text = operation.body.encode("utf-8", "surrogatepass")
        if not operation.keep_id:
            text = _add_id(text)
        mode = Mode.CREATE if operation.op == "create" else Mode.UPSERT
        if_match = self._parse_version(operation.etag) if mode is Mode.UPSERT else None
        return await self._write(mode, self.parse_document(text), if_match)

    async def _replace(self, operation: ScriptOperation) -> bytes:
        item = self.parse_document(operation.body.encode("utf-8", "surrogatepass"))
        address = await self._address(operation)
        return await self._write(Mode.REPLACE, item, self._parse_version(operation.etag), address)

    async def _delete(self, operation: ScriptOperation) -> bytes:
        (key, seq), if_match = await self._address(operation), self._parse_version(operation.etag)
        await self.run(Command(Mode.DELETE, self._transaction.partition, key, None, if_match, seq=seq))
        return b'{"options":{}}'

    def _parse_version(self, etag: str | None) -> int | None:
        return lsn_of_etag(etag, self._view.id) if etag else None

    async def _address(self, operation: ScriptOperation) -> Address:
        """Return the address of the document that a link names; NotFound for an unknown rid."""
        if operation.by_name:
            return operation.id.encode("utf-8", "surrogatepass"), None
        number = item_number(self._view.id, operation.id)
        found = None if number is None else await self._transaction.record_at(number)
        if found is None:
            raise NotFound(NOT_FOUND)
        return found.key, number

    # --- reads -------------------------------------------------------------------------------------------------------------

    async def _read(self, operation: ScriptOperation) -> bytes:
        key, seq = await self._address(operation)
        written = await self.run(Command(Mode.READ, self._transaction.partition, key, seq=seq))
        etag = item_etag(self._view.links, written.record)
        if operation.if_none_match and etag_matches(operation.if_none_match, etag):
            return b'{"options":{"notModified":true}}'
        return self._encode_item(written)

    async def _query(self, operation: ScriptOperation) -> bytes:
        """Read a page of a query, or of all documents."""
        text, parameters = _EVERYTHING, dict[str, Any]()
        if operation.query is not None:
            text, parameters = await queries.parse_body(
                HERE, msgspec.json.encode(operation.query), self._account.limits
            )
        view, partition = self._view, self._transaction.partition
        functions = await find_functions(self._reads, view.id, wanted_functions(text))
        query = compile_query(text, parameters, view.declarations_with(functions.keys()), lenient=self._account.lenient)
        queries.check_composite_order(query, view.composite_orders)
        scope = Scope.of_partition(partition)
        secret = self._account.secret
        # The prefix keeps the tokens of scripts and those of clients apart.
        bound = continuation.binding(view.id, "script " + text, parameters, partition.hex())
        token, start = operation.continuation, PageStart()
        if token:
            start = msgspec.convert(continuation.unseal(secret, bound, token), PageStart)
        size = _DEFAULT_PAGE if operation.page_size is None else int(operation.page_size)
        limit = _MAX_PAGE if size < 1 else min(size, _MAX_PAGE)
        call = function_caller(functions, self._time_budget, self._transaction.now)
        page = await Pager(self._transaction, view, query, scope, self._transaction.now, limit, call).read(start)
        self.charge += page.charge
        options: dict[str, Any] = {}
        if page.next is not None:
            options["continuation"] = continuation.seal(secret, bound, msgspec.structs.astuple(page.next))
        return b'{"body":[%b],"options":%b}' % (b",".join(page.rows), msgspec.json.encode(options))

    def _encode_item(self, written: Written) -> bytes:
        owner = self._view.links
        options = msgspec.json.encode({"etag": item_etag(owner, written.record)})
        return b'{"body":%b,"options":%b}' % (item_body(owner, written.record), options)


def _add_id(text: bytes) -> bytes:
    """Give a document without an id a new one, as clients do."""
    try:
        doc = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return text  # `parse_item` refuses it with its own message.
    if not isinstance(doc, dict) or doc.get("id"):
        return text
    number = secrets.token_hex(16)
    # The form of a UUID of version 4.
    id = f"{number[:8]}-{number[8:12]}-4{number[13:16]}-8{number[17:20]}-{number[20:]}"
    return msgspec.json.encode({**doc, "id": id})


def _encode_error(error: MayflyError) -> bytes:
    message = message_of(error)
    if isinstance(error, BadQuery):
        message = f"{message} ({error.detail['code']})" if "code" in error.detail else message
    return msgspec.json.encode({"error": {"number": errors.answer_of(error).status, "message": message}})
