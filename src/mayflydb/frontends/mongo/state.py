"""The state of one connection."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from mayflydb.engine.locks import LockWaits
from mayflydb.frontends.mongo.accounts.roles import User
from mayflydb.frontends.mongo.accounts.scram import Conversation
from mayflydb.query.mongo.values import Document


class PricedCommand(msgspec.Struct, frozen=True, gc=False):
    """A command that had a price: its name, request units, and duration in microseconds of the host's time."""

    name: str
    charge: float
    duration: int


class Login(msgspec.Struct):
    """A login in progress.

    `user`: None for an unknown user, whose login fails. `skips_empty_exchange`: the server's last message ends the login.
    `name`: as the client gave it, `db.name`. `proven`: the client's proof was right.
    """

    conversation: Conversation
    user: User | None
    skips_empty_exchange: bool
    name: str
    proven: bool = False


class ConnectionState(msgspec.Struct, eq=False):
    """The state of one connection.

    `peer`: the client's `host:port`. `client`: the metadata that the client sent. `user`: the user who is logged in. `login`:
    a login in progress. `closing`: the connection ends after the present answer. `last_priced`: its last command that had a
    price. `left`: no client waits for the present answer. `cancel`: cancels the task of the present command, if it has one.
    `lock_waits`: the waits of its writes for locks, which end when the client leaves.
    """

    id: int
    peer: str = ""
    tls: bool = False
    client: Document | None = None
    user: User | None = None
    login: Login | None = None
    last_priced: PricedCommand | None = None
    closing: bool = False
    left: bool = False
    cancel: Callable[[], None] | None = None
    lock_waits: LockWaits = msgspec.field(default_factory=LockWaits)

    @property
    def address(self) -> str:
        """The client's address without a port."""
        return self.peer.rpartition(":")[0].strip("[]")

    @property
    def application(self) -> str:
        """The name of the application in the client's metadata; empty without one."""
        return application_of(self.client or {})


def application_of(client: Document) -> str:
    """The name of the application in a client's metadata; empty without one."""
    named = client.get("application")
    name = named.get("name") if isinstance(named, dict) else None
    return name if isinstance(name, str) else ""
