"""The command serverStatus: the server, and counters of its work since the start."""

from __future__ import annotations

import os
import resource
import socket
import sys
from collections.abc import Callable
from typing import Final

import msgspec
from bson import DatetimeMS, Int64

from mayflydb.evaluation.memory import resident_bytes, virtual_bytes
from mayflydb.frontends.mongo import arguments
from mayflydb.frontends.mongo.calls import GENERIC_ARGUMENTS, Call
from mayflydb.frontends.mongo.commands.handshake import topology_fields, version_of
from mayflydb.frontends.mongo.counters import OPERATIONS
from mayflydb.frontends.mongo.documents import to_milliseconds
from mayflydb.frontends.mongo.idle import describe_idle_transactions
from mayflydb.frontends.mongo.services import CommandEntry, Services
from mayflydb.frontends.mongo.usage import READS, WRITES
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


def _asserts(services: Services, call: Call) -> Document:
    counters = services.counters
    # Counters here do not run over, and nothing but these two kinds exists.
    none = dict.fromkeys(("warning", "msg", "tripwire", "rollovers"), 0)
    return {"regular": counters.failures, "user": counters.refusals, **none}


def _lock(services: Services, call: Call) -> Document:
    """Commands in progress, and those that wait for a transaction's lock. A read never waits for one."""
    waiting = services.engine.locks.waiting
    active = [each.name for each in services.operations.current.values()]
    reading, writing = sum(name in READS for name in active), sum(name in WRITES for name in active)
    return {
        "totalTime": Int64(services.monotonic() - services.started_monotonic),
        "currentQueue": {"total": waiting, "readers": 0, "writers": waiting},
        "activeClients": {"total": len(active), "readers": reading, "writers": writing},
    }


def _latencies(services: Services, call: Call) -> Document:
    return services.collections.usage.latencies.describe()


def _transactions(services: Services, call: Call) -> Document:
    transactions = services.transactions
    counts, opened = transactions.counts, len(transactions)
    idle = len(describe_idle_transactions(services, call, None))
    return {
        "currentActive": Int64(opened - idle),
        "currentInactive": Int64(idle),
        "currentOpen": Int64(opened),
        "totalStarted": Int64(counts.started),
        "totalCommitted": Int64(counts.committed),
        "totalAborted": Int64(counts.aborted),
    }


def _sessions(services: Services, call: Call) -> Document:
    return {"activeSessionsCount": len(services.sessions)}


def _memory(services: Services, call: Call) -> Document:
    resident, virtual = resident_bytes(), virtual_bytes()
    # Without /proc, the maximum so far: the present size is not available there.
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RSS_UNIT if resident is None else resident
    found: Document = {"bits": 64, "resident": most >> 20, "supported": True}
    return found if virtual is None else {**found, "virtual": virtual >> 20}


def _engine(services: Services, call: Call) -> Document:
    return {"name": "mayfly", "persistent": services.engine.durable}


def _metrics(services: Services, call: Call) -> Document:
    monitor = services.engine.monitor
    ttl = {
        "deletedDocuments": Int64(monitor.deleted_documents),
        "passes": Int64(monitor.passes(call.now)),
        "subPasses": Int64(monitor.sub_passes(call.now)),
    }
    opened = services.cursors.counts()
    return {
        "commands": _commands(services),
        "cursor": {"open": {name: Int64(count) for name, count in opened.items()}},
        "operation": {"writeConflicts": Int64(services.engine.locks.conflicts)},
        "ttl": ttl,
    }


def _commands(services: Services) -> Document:
    """The number of answers to each command, and of errors among them."""
    found: Document = {}
    for (protocol, name, status), series in services.engine.requests.series.items():
        if protocol == "mongo" and type(name) is str:
            counts = found.setdefault(name, {"failed": Int64(0), "total": Int64(0)})
            counts["total"] = Int64(counts["total"] + series.count)
            if status == "error":
                counts["failed"] = Int64(series.count)
    return found


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
    "opLatencies": _latencies,
    "asserts": _asserts,
    "globalLock": _lock,
    "logicalSessionRecordCache": _sessions,
    "transactions": _transactions,
    "network": _network,
    "mem": _memory,
    "storageEngine": _engine,
    "metrics": _metrics,
    "batchedDeletes": _batches,
}
"""Sections of the answer by name. The argument `name: 0` leaves one out."""


async def server_status(services: Services, call: Call) -> Document:
    """Return the head, and all sections that are not turned off."""
    head = _head(services, call)
    wanted = {
        name: arguments.flag(call.body, name, call.name)
        for name in call.body
        if name in SECTIONS and name not in GENERIC_ARGUMENTS
    }
    if services.options.topology == "replicaset" and arguments.flag(call.body, "repl", call.name, default=True):
        head["repl"] = topology_fields(services, call)
    sections = {name: make(services, call) for name, make in SECTIONS.items() if wanted.get(name, True)}
    return {**head, **sections}


async def diagnostic_data(services: Services, call: Call) -> Document:
    """Return what exporters of measurements collect: the status of the server, with the time of its making."""
    call.check_fields(())
    status = await server_status(services, msgspec.structs.replace(call, name="serverStatus", body={}))
    now = DatetimeMS(to_milliseconds(call.now))
    return {"data": {"start": now, "serverStatus": {**status, "ok": 1.0}, "end": now}}


HANDLERS: Final[dict[str, CommandEntry]] = {
    "getDiagnosticData": CommandEntry(
        diagnostic_data, "monitor", admin_only=True, help="What exporters of measurements collect."
    ),
    "serverStatus": CommandEntry(server_status, "monitor", help="What this server has done since it began."),
}
