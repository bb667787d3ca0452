"""What is known of one connection."""

from __future__ import annotations

import msgspec

from mayflydb.engine.locks import Patience
from mayflydb.frontends.mongo.accounts.roles import User
from mayflydb.frontends.mongo.accounts.scram import Conversation
from mayflydb.query.mongo.values import Document


class PricedCommand(msgspec.Struct, frozen=True, gc=False):
    """The last command that had a price: its name, request units, and how long it took, in microseconds of the host's time."""

    name: str
    charge: float
    duration: int


class Login(msgspec.Struct):
    """A login under way. `user`: who it would be; None: nobody, so that it fails. `skip`: no empty exchange at the end."""

    conversation: Conversation
    user: User | None
    skip: bool
    proven: bool = False


class ConnectionState(msgspec.Struct, eq=False):
    """`peer`: `host:port` of the client. `client`: what it says it is. `user`: who has logged in, `login`: who tries.

    `closing`: the connection ends when the answer in work is sent. `last_priced` is set by commands that have a price.
    `patience`: its writes wait for locks until it leaves.
    """

    id: int
    peer: str = ""
    tls: bool = False
    client: Document | None = None
    user: User | None = None
    login: Login | None = None
    last_priced: PricedCommand | None = None
    closing: bool = False
    patience: Patience = msgspec.field(default_factory=Patience)

    @property
    def application(self) -> str:
        """The name that the application gave itself."""
        named = (self.client or {}).get("application")
        name = named.get("name") if isinstance(named, dict) else None
        return name if isinstance(name, str) else ""
