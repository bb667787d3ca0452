"""The command serverStatus: the server, and counters of its work since the start."""

from __future__ import annotations

import os
import resource
import socket
import sys
from collections.abc import Callable
from typing import Final

from bson import DatetimeMS, Int64

from mayflydb.frontends.mongo import arguments
from mayflydb.frontends.mongo.calls import GENERIC_ARGUMENTS, Call
from mayflydb.frontends.mongo.commands.handshake import version_of
from mayflydb.frontends.mongo.counters import OPERATIONS
from mayflydb.frontends.mongo.documents import to_milliseconds
from mayflydb.frontends.mongo.services import CommandEntry, Services
from mayflydb.model.instant import MILLISECOND, SECOND
from mayflydb.query.mongo.values import Document

_RSS_UNIT: Final = 1 if sys.platform == "darwin" else 1024
"""The unit of `ru_maxrss` in bytes: macOS counts bytes, others kB."""


def _head(services: Services, call: Call) -> Document:
    """The fields that are in every answer."""
    major, minor = version_of(services.options)
    up = services.monotonic() - services.started_monotonic
    return {
        "host": socket.gethostname(),
        "version": f"{major}.{minor}.0",
        "process": "mongos" if services.options.topology == "mongos" else "mongod",
        "pid": Int64(os.getpid()),
        "uptime": up / SECOND,
        "uptimeMillis": Int64(up // 1000),
        "uptimeEstimate": Int64(up // SECOND),
        "localTime": DatetimeMS(to_milliseconds(call.now)),
    }


def _connections(services: Services, call: Call) -> Document:
    counters = services.counters
    return {
        "current": counters.connected,
        "available": max(0, services.options.max_connections - counters.connected),
        "totalCreated": Int64(counters.connections),
    }


def _operations(services: Services, call: Call) -> Document:
    counts = services.counters.operations
    return {name: Int64(counts[name]) for name in OPERATIONS}


def _network(services: Services, call: Call) -> Document:
    counters = services.counters
    return {
        "bytesIn": Int64(counters.received),
        "bytesOut": Int64(counters.sent),
        "numRequests": Int64(counters.requests),
    }


def _memory(services: Services, call: Call) -> Document:
    # The maximum so far: the present size is not available on every system.
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RSS_UNIT
    return {"bits": 64, "resident": most >> 20, "supported": True}


def _engine(services: Services, call: Call) -> Document:
    return {"name": "mayfly", "persistent": services.engine.durable}


def _metrics(services: Services, call: Call) -> Document:
    monitor = services.engine.monitor
    ttl = {
        "deletedDocuments": Int64(monitor.deleted_documents),
        "passes": Int64(monitor.passes(call.now)),
        "subPasses": Int64(monitor.sub_passes(call.now)),
    }
    return {"operation": {"writeConflicts": Int64(services.engine.locks.conflicts)}, "ttl": ttl}


def _batches(services: Services, call: Call) -> Document:
    monitor = services.engine.monitor
    return {
        "batches": Int64(monitor.batches),
        "docs": Int64(monitor.deleted_documents),
        "stagedSizeBytes": Int64(monitor.deleted_bytes),
        "timeInBatchMillis": Int64(monitor.held // MILLISECOND),
        # A sweep never yields within its transaction, so it fetches nothing again.
        "refetchesDueToYield": Int64(0),
    }


SECTIONS: Final[dict[str, Callable[[Services, Call], Document]]] = {
    "connections": _connections,
    "opcounters": _operations,
    "network": _network,
    "mem": _memory,
    "storageEngine": _engine,
    "metrics": _metrics,
    "batchedDeletes": _batches,
}
"""Sections of the answer by name. The argument `name: 0` leaves one out."""


async def server_status(services: Services, call: Call) -> Document:
    """Return the head, and all sections that are not turned off."""
    wanted = {
        name: arguments.flag(call.body, name, call.name)
        for name in call.body
        if name in SECTIONS and name not in GENERIC_ARGUMENTS
    }
    sections = {name: make(services, call) for name, make in SECTIONS.items() if wanted.get(name, True)}
    return {**_head(services, call), **sections}


HANDLERS: Final[dict[str, CommandEntry]] = {
    "serverStatus": CommandEntry(server_status, "server", help="What this server has done since it began."),
}
