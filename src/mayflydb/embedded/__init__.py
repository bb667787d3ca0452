"""Mayfly in the process of its application: a server in a thread, or a database without ports."""

from __future__ import annotations

from mayflydb.embedded.addresses import CosmosAccess, MongoAccess, YdbAccess
from mayflydb.embedded.handles import AdminHandle, ClockHandle, Controls, Events, TtlHandle
from mayflydb.embedded.questions import Expired, instant_of
from mayflydb.embedded.servers import RunningServer, ServerHandle, running, serve
from mayflydb.embedded.settings import settings_from
from mayflydb.embedded.within import with_hint

__all__ = [
    "AdminHandle",
    "ClockHandle",
    "Controls",
    "CosmosAccess",
    "Events",
    "Expired",
    "MongoAccess",
    "RunningServer",
    "ServerHandle",
    "TtlHandle",
    "YdbAccess",
    "instant_of",
    "running",
    "serve",
    "settings_from",
    "with_hint",
]
