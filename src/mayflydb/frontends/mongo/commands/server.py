"""Commands by which shells and tools ask about the server itself."""

from __future__ import annotations

import json
import os
import platform
import socket
from typing import Final

from bson import DatetimeMS, Int64

from mayflydb.frontends.mongo import arguments, failpoints, recent_log
from mayflydb.frontends.mongo.calls import Call
from mayflydb.frontends.mongo.services import CommandEntry, Services
from mayflydb.model.instant import MILLISECOND, to_rfc3339
from mayflydb.query.mongo.faults import MqlError, bad_value, type_mismatch
from mayflydb.query.mongo.values import Document, type_name

LOGS: Final = ("global", "startupWarnings")


async def whats_my_uri(services: Services, call: Call) -> Document:
    """Return the client's address."""
    call.check_fields(())
    return {"you": call.connection.peer}


async def connection_status(services: Services, call: Call) -> Document:
    """Return the user that this connection is logged in as."""
    call.check_fields(("showPrivileges",))
    user = call.connection.user
    info: Document = {
        "authenticatedUsers": [] if user is None else [{"user": user.name, "db": user.db}],
        "authenticatedUserRoles": []
        if user is None
        else [{"role": each.role, "db": each.db} for each in user.all_roles],
    }
    if arguments.flag(call.body, "showPrivileges", call.name):
        given = None if user is None else await services.accounts.roles.resolve(user.roles)
        info["authenticatedUserPrivileges"] = (
            [] if given is None else [each.describe() for each in given.all_privileges]
        )
    return {"authInfo": info}


def _available_cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return (os.cpu_count() or 1) if affinity is None else len(affinity(0))


async def host_info(services: Services, call: Call) -> Document:
    """Describe the machine."""
    call.check_fields(())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // (1 << 20)
    return {
        "system": {
            "currentTime": DatetimeMS(call.now // MILLISECOND),
            "hostname": socket.gethostname(),
            "cpuAddrSize": 64 if platform.architecture()[0] == "64bit" else 32,
            "memSizeMB": Int64(memory),
            "memLimitMB": Int64(memory),
            "numCores": os.cpu_count() or 1,
            "numCoresAvailableToProcess": _available_cores(),
            "cpuArch": platform.machine(),
        },
        "os": {"type": platform.system(), "name": platform.system(), "version": platform.release()},
        "extra": {"pageSize": Int64(os.sysconf("SC_PAGE_SIZE")), "versionString": platform.version()},
    }


async def command_line(services: Services, call: Call) -> Document:
    """Return the settings that concern MongoDB. The actual command line is not shown: it may hold a password."""
    call.check_fields(())
    options = services.options
    parsed: Document = {
        "net": {
            "maxIncomingConnections": options.max_connections,
            "compression": {"compressors": ",".join(options.compressors)},
        },
        "security": {"authorization": "enabled" if options.auth else "disabled"},
    }
    if options.replica_set:
        parsed["replication"] = {"replSet": options.replica_set}
    return {"argv": ["mayfly"], "parsed": parsed}


async def get_log(services: Services, call: Call) -> Document:
    """Return the last lines of the log, or the warnings of the server's start."""
    call.check_fields(())
    asked = call.body[call.name]
    if asked == "*":
        return {"names": list(LOGS)}
    if not isinstance(asked, str):
        raise type_mismatch("getLog.getLog", type_name(asked), "string")
    if asked not in LOGS:
        raise MqlError(96, f"No log named '{asked}'")
    if asked == "global":
        return {"totalLinesWritten": recent_log.lines.total, "log": recent_log.lines.read()}
    lines = [] if services.options.auth else [_access_warning(services, call)]
    return {"totalLinesWritten": len(lines), "log": lines}


def _access_warning(services: Services, call: Call) -> str:
    line = {
        "t": {"$date": to_rfc3339(services.started)},
        "s": "W",
        "c": "CONTROL",
        "id": 22120,
        "ctx": "initandlisten",
        "msg": "Access control is not enabled for the database. Read and write access to data is unrestricted",
        "tags": ["startupWarnings"],
    }
    return json.dumps(line, separators=(",", ":"))


async def list_commands(services: Services, call: Call) -> Document:
    """Return every command by name."""
    call.check_fields(())
    test = services.options.test_commands
    return {
        "commands": {
            name: {
                "help": command.help,
                "requiresAuth": command.right != "open",
                "secondaryOk": command.right in ("open", "anyone", "read"),
                "adminOnly": command.admin_only,
            }
            for name, command in sorted(services.handlers.items())
            if test or not command.test_only
        }
    }


async def configure_fail_point(services: Services, call: Call) -> Document:
    """Set a fail point, and return how often the previous one triggered."""
    call.check_fields(("mode", "data"))
    name = call.body[call.name]
    if name not in failpoints.NAMES:
        raise bad_value(f"there is no fail point {name!r}: they are {' and '.join(failpoints.NAMES)}")
    return {"count": services.failpoints.configure(name, call.body.get("mode"), call.body.get("data", {}))}


HANDLERS: Final[dict[str, CommandEntry]] = {
    "whatsmyuri": CommandEntry(whats_my_uri, "open", help="The client's own address."),
    "connectionStatus": CommandEntry(connection_status, "open", help="Who is logged in on this connection."),
    "hostInfo": CommandEntry(host_info, "monitor", help="The machine this runs on."),
    "getCmdLineOpts": CommandEntry(command_line, "monitor", admin_only=True, help="How the server was started."),
    "getLog": CommandEntry(get_log, "monitor", admin_only=True, help="Warnings from the start."),
    "listCommands": CommandEntry(list_commands, "anyone", help="This list."),
    "configureFailPoint": CommandEntry(
        configure_fail_point, "server", admin_only=True, test_only=True, help="Makes commands fail, to rehearse it."
    ),
}
