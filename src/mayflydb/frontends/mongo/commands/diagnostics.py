"""Commands by which tools look into a server at work: top, lockInfo, connPoolStats, features, profile, and the cache of plans.

Shapes: https://www.mongodb.com/docs/manual/reference/command/nav-diagnostic/
"""

from __future__ import annotations

from typing import Any, Final

from bson import Int64

from mayflydb.frontends.mongo import arguments
from mayflydb.frontends.mongo.calls import Call
from mayflydb.frontends.mongo.collections import Collection
from mayflydb.frontends.mongo.quick_finds import forget_plans
from mayflydb.frontends.mongo.services import CommandEntry, Services
from mayflydb.frontends.mongo.usage import EVENTS, CollectionUsage
from mayflydb.model.instant import MILLISECOND
from mayflydb.query.mongo.faults import MqlError, bad_value, type_mismatch
from mayflydb.query.mongo.values import Document, is_number, type_name

MAX_LOCKS: Final = 1000
"""The most locks that lockInfo lists."""


async def top(services: Services, call: Call) -> Document:
    """Return how often each collection was used, and for how many microseconds. `readLock`: reads; `writeLock`: writes."""
    totals: Document = {"note": "all times in microseconds"}
    for node in await services.collections.list_databases():
        for each in await services.collections.list_collections(node.name):
            used = services.collections.usage.find(node.name, each.name)
            totals[each.namespace] = _describe_use(CollectionUsage(0) if used is None else used)
    return {"totals": totals}


def _describe_use(used: CollectionUsage) -> Document:
    latencies, events = used.latencies, used.events
    every = (latencies.reads, latencies.writes, latencies.commands)
    return {
        "total": _pair(sum(each.micros for each in every), sum(each.operations for each in every)),
        "readLock": _pair(latencies.reads.micros, latencies.reads.operations),
        "writeLock": _pair(latencies.writes.micros, latencies.writes.operations),
        **{name: _pair(events[name].micros, events[name].operations) for name in EVENTS},
    }


def _pair(micros: int, operations: int) -> Document:
    return {"time": Int64(micros), "count": Int64(operations)}


async def lock_info(services: Services, call: Call) -> Document:
    """Return the documents that open transactions have locked, up to MAX_LOCKS."""
    call.check_fields({"includeStorageEngineDump"})
    names: dict[int, str] = {}
    for node in await services.collections.list_databases():
        for each in await services.collections.list_collections(node.name):
            names[each.id] = each.namespace
    found = services.engine.locks.list_locked(MAX_LOCKS)
    return {
        "lockInfo": [
            {
                "resourceId": f"{{document {identity[1].hex()} of {names.get(container, container)}}}",
                "granted": [{"mode": "X" if exclusive else "S"}],
                "pending": [],
            }
            for container, identity, exclusive in found
        ]
    }


async def conn_pool_stats(services: Services, call: Call) -> Document:
    """Return the connections to other servers: there are none."""
    numbers = ("totalInUse", "totalAvailable", "totalLeased", "totalCreated", "totalRefreshing")
    none = {"numClientConnections": 0, "numAScopedConnections": 0, **dict.fromkeys(numbers, 0)}
    return {**none, "pools": {}, "hosts": {}, "replicaSets": {}}


async def features(services: Services, call: Call) -> Document:
    """Return the number by which this process is told apart in ObjectIds."""
    call.check_fields({"oidReset"})
    if arguments.flag(call.body, "oidReset", call.name):
        raise MqlError(115, "features with 'oidReset' is not supported")
    return {"oidMachine": services.ids.machine}


_LEVELS: Final = (-1, 0, 1, 2)


async def profile(services: Services, call: Call) -> Document:
    """Return the settings of the profiler, which is always off: slow requests are logged. Changes are refused, as by a mongos."""
    call.check_fields({"slowms", "sampleRate", "filter"})
    for field in (call.name, "slowms", "sampleRate"):
        value = call.body.get(field)
        if value is None and field == call.name:
            raise arguments.missing_argument(call.name, call.name)
        if value is not None and not is_number(value):
            raise type_mismatch(f"{call.name}.{field}", type_name(value), *arguments.NUMERIC)
    given: Any = call.body.get("filter")
    if "filter" in call.body and type(given) is not dict and given != "unset":
        raise bad_value("Expected an object, or the string 'unset'.")
    current = _current_settings(services)
    asked = {"slowms": call.body.get("slowms"), "sampleRate": call.body.get("sampleRate")}
    changes = [name for name, value in asked.items() if value is not None and value != current[name]]
    level = arguments.truncate_number(call.body[call.name])
    if level not in _LEVELS:
        level = -1
    if level > 0 or changes or type(given) is dict:
        text = "the profiler is not supported: requests above the setting 'slow-request' are logged, with their times"
        raise bad_value(f"Profiling is not permitted here: {text}")
    return {"was": 0, **current}


def _current_settings(services: Services) -> Document:
    threshold = services.engine.slow_log.threshold
    # A negative number of milliseconds would log everything.
    return {"slowms": 2**31 - 1 if threshold is None else threshold // MILLISECOND, "sampleRate": 1.0}


async def _find_planned(services: Services, call: Call) -> Collection | None:
    """The collection of a command of the plan cache; None: there is none. Raise MqlError 73, 166."""
    name = call.body[call.name]
    if type(name) is not str or not name or "\0" in name:
        raise MqlError(73, f"Invalid collection name specified: {name!r}")
    collection = await services.collections.find(call.database, name)
    if collection is not None and collection.view_on is not None:
        raise MqlError(166, f"Cannot run {call.name} on a view")
    return collection


async def plan_cache_clear(services: Services, call: Call) -> Document:
    """Forget the plans of a collection, those of all shapes: they are made anew by the next query."""
    collection = await _find_planned(services, call)
    if collection is not None:
        forget_plans(collection)
    return {}


async def plan_cache_list_filters(services: Services, call: Call) -> Document:
    """Return the index filters of a collection: there are none."""
    await _find_planned(services, call)
    return {"filters": []}


async def plan_cache_clear_filters(services: Services, call: Call) -> Document:
    """Remove the index filters of a collection: there are none."""
    await _find_planned(services, call)
    return {}


async def plan_cache_set_filter(services: Services, call: Call) -> Document:
    """Refuse an index filter."""
    raise MqlError(115, "planCacheSetFilter is not supported: use a hint, or hide the other indexes")


_CLEAR = CommandEntry(plan_cache_clear, "schema", help="forgets the plans of queries")

HANDLERS: Final[dict[str, CommandEntry]] = {
    "top": CommandEntry(top, "monitor", admin_only=True, help="tells the use of each collection"),
    "lockInfo": CommandEntry(
        lock_info, "monitor", admin_only=True, help="lists documents that transactions have locked"
    ),
    "connPoolStats": CommandEntry(conn_pool_stats, "monitor", help="counts connections to other servers: none"),
    "features": CommandEntry(features, "open", help="gives the process's part of ObjectIds"),
    "profile": CommandEntry(profile, "stats", help="tells the settings of the profiler, which is off"),
    "planCacheClear": _CLEAR,
    "planCacheListFilters": CommandEntry(plan_cache_list_filters, "stats", help="lists index filters: none"),
    "planCacheClearFilters": CommandEntry(plan_cache_clear_filters, "schema", help="removes index filters: none"),
    "planCacheSetFilter": CommandEntry(plan_cache_set_filter, "schema", help="refused: there are no index filters"),
}
