"""The first commands of every driver: identity and abilities of the server."""

from __future__ import annotations

from typing import Final

from bson import DatetimeMS, Int64

from mayflydb.frontends.mongo.calls import Call
from mayflydb.frontends.mongo.commands.login import add_login_fields
from mayflydb.frontends.mongo.commands.writes import MAX_STATEMENTS
from mayflydb.frontends.mongo.documents import MAX_DOCUMENT_BYTES
from mayflydb.frontends.mongo.options import Options
from mayflydb.frontends.mongo.protocol.messages import MAX_MESSAGE_BYTES
from mayflydb.frontends.mongo.services import CommandEntry, Services
from mayflydb.model.instant import MILLISECOND, SECOND
from mayflydb.query.mongo.faults import MqlError, type_mismatch
from mayflydb.query.mongo.values import Document, timestamp_at, type_name

SESSION_MINUTES: Final = 30

VERSIONS: Final = {9: (4, 4), 13: (5, 0), 17: (6, 0), 21: (7, 0), 25: (8, 0), 29: (9, 0)}
"""Wire version -> the release that first spoke it."""


def version_of(options: Options) -> tuple[int, int]:
    """The release (major, minor) that belongs to the wire version."""
    return VERSIONS[options.wire_version]


def version_text(options: Options) -> str:
    """The release in the form of `buildInfo`."""
    major, minor = version_of(options)
    return f"{major}.{minor}.0"


async def hello(services: Services, call: Call) -> Document:
    """Describe the server. Unknown arguments are ignored, since each release of a driver adds some."""
    body, options = call.body, services.options
    _store_client_metadata(call)
    reply: Document = {"isWritablePrimary" if call.name == "hello" else "ismaster": True}
    if body.get("helloOk") or call.name == "hello":
        reply["helloOk"] = True
    reply.update(topology_fields(services, call))
    reply.update(
        maxBsonObjectSize=MAX_DOCUMENT_BYTES,
        maxMessageSizeBytes=MAX_MESSAGE_BYTES,
        maxWriteBatchSize=MAX_STATEMENTS,
        localTime=DatetimeMS(call.now // MILLISECOND),
        logicalSessionTimeoutMinutes=SESSION_MINUTES,
        connectionId=call.connection.id,
        minWireVersion=0,
        maxWireVersion=options.wire_version,
        readOnly=False,
    )
    wanted = body.get("compression")
    if isinstance(wanted, list) and (common := [name for name in wanted if name in options.compressors]):
        reply["compression"] = common
    await add_login_fields(services, call, reply)
    return reply


def _store_client_metadata(call: Call) -> None:
    client = call.body.get("client")
    if client is None:
        return
    if not isinstance(client, dict):
        raise type_mismatch(f"{call.name}.client", type_name(client), "object")
    if call.connection.client is not None:
        raise MqlError(186, "The client metadata document may only be sent in the first hello")
    call.connection.client = client


def topology_fields(services: Services, call: Call) -> Document:
    """The fields of hello by which a client knows a router, or a replica set."""
    options = services.options
    if options.topology == "mongos":
        # Drivers know a router by this text. A router needs no replica set, and drivers do not look for other members.
        return {"msg": "isdbgrid"}
    if options.topology == "standalone":
        return {}
    here = options.advertise
    date = DatetimeMS(call.now // MILLISECOND)
    return {
        "setName": options.replica_set,
        "setVersion": 1,
        "secondary": False,
        "hosts": [here],
        "primary": here,
        "me": here,
        "lastWrite": {"opTime": {"ts": timestamp_at(call.now // SECOND), "t": Int64(1)}, "lastWriteDate": date},
    }


async def ping(services: Services, call: Call) -> Document:
    """Answer at once."""
    call.check_fields(())
    return {}


async def build_info(services: Services, call: Call) -> Document:
    """Describe the release that drivers should assume."""
    call.check_fields(())
    major, minor = version_of(services.options)
    return {
        "version": version_text(services.options),
        "gitVersion": f"mayfly-{services.options.version}",
        "modules": [],
        "versionArray": [major, minor, 0, 0],
        "bits": 64,
        "debug": False,
        "javascriptEngine": "none",
        "maxBsonObjectSize": MAX_DOCUMENT_BYTES,
        "storageEngines": ["mayfly"],
    }


HANDLERS: Final[dict[str, CommandEntry]] = {
    "hello": CommandEntry(hello, "open", help="What this server is, and can do."),
    "isMaster": CommandEntry(hello, "open", help="`hello`, as older drivers call it."),
    "ismaster": CommandEntry(hello, "open", help="`hello`, as older drivers call it."),
    "ping": CommandEntry(ping, "open", help="Answers."),
    "buildInfo": CommandEntry(build_info, "open", help="The release that is spoken here."),
    "buildinfo": CommandEntry(build_info, "open", help="The release that is spoken here."),
}
