"""Users, groups, and the tokens that authenticate users.

A token names a user, the end of its validity and the state of the user's password when the token was issued. Tokens are
signed and not stored. A token is invalid once its user is dropped or has another password. A token is a JSON Web Token,
because YDB's clients read its time of expiry: https://www.rfc-editor.org/rfc/rfc7519.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hmac
from collections.abc import Callable
from random import Random  # noqa: TID251 - the type; what draws comes in from outside
from typing import Any, Final

import msgspec

from mayflydb.engine.catalog import Definition, Node
from mayflydb.engine.engine import Engine
from mayflydb.frontends.ydb.errors import LoginRequired
from mayflydb.model.errors import Conflict, NotFound, OwnerNotFound
from mayflydb.model.instant import HOUR, SECOND, Instant, Span
from mayflydb.query.yql.faults import Fault, fault
from mayflydb.sockets.guesses import Guesses, TooManyGuesses

SPACE, USERS_SPACE = "ydb", "ydb users"

ROOT: Final = "root"
DEFAULT_USER: Final = "root@builtin"
"""The user of every call on a server without login."""

ADMINISTRATORS_GROUP: Final = "ADMINS"
ALL_USERS_GROUP: Final = "all-users@well-known"

TOKEN_LIFETIME: Final[Span] = 12 * HOUR
MEMBERS_AT_ONCE: Final = 50
"""Users that leave a dropped group in one transaction."""

MAX_HASHES_AT_ONCE: Final = 2
"""Computations of Argon2id at once: each takes a thread, 19 MiB and tens of milliseconds."""

WRONG_PASSWORD: Final = "Invalid password"  # noqa: S105 - a text
_NO_TOKEN: Final = "Access denied without user token"  # noqa: S105 - a text
_BAD_TOKEN: Final = "Could not find correct token validator"  # noqa: S105 - a text


class Secret(msgspec.Struct, frozen=True):
    """The Argon2id hash of a password and its salt, both in base64."""

    salt: str
    hash: str


class User(msgspec.Struct, frozen=True):
    """A user.

    `secret` None: the password is empty. `login`: the user may log in. `state`: a random number, drawn again with each
    new password.
    """

    name: str
    secret: Secret | None = None
    login: bool = True
    state: int = 0
    groups: tuple[str, ...] = ()


class Claims(msgspec.Struct, frozen=True):
    """The claims of a token. `iat`, `exp`: issue and end of validity, in seconds since 1970 by Mayfly's clock."""

    sub: str
    state: int
    iat: int
    exp: int


_HEADER: Final = b'{"alg":"HS256","typ":"JWT"}'


class Accounts:
    """The users and groups of one server. The user `root` always exists."""

    def __init__(
        self,
        engine: Engine,
        chance: Random,
        login_required: bool,
        secret: bytes,
        root_password: str | None,
        max_users: int = 1_000,
    ) -> None:
        """Take the login policy. `max_users`: the most users and groups.

        `login_required`: calls without a token are refused. `secret`: the key that signs tokens. `root_password`: None:
        any password is accepted, as no login is needed.
        """
        self._engine = engine
        self._chance = chance
        self.login_required = login_required
        self._signing_key = secret or chance.getrandbits(256).to_bytes(32, "big")
        self._root_password = root_password
        self._cached_version = -1
        self._cached_users: dict[str, User] = {}
        self._max_users = max_users
        self._creating = asyncio.Lock()
        self._guesses = Guesses()
        self._hashing = asyncio.Semaphore(MAX_HASHES_AT_ONCE)

    # --- logins and tokens -------------------------------------------------------------------------------------------

    async def login(self, name: str, password: str, now: Instant, address: str = "") -> str:
        """Return a token for a name and its password. `address`: the client's, without a port. Faults: UNAUTHORIZED."""
        user = None

        async def check() -> bool:
            nonlocal user
            # Looked up at its turn: the password may have been changed meanwhile.
            user = await self.find(name)
            return user is not None and await self._verify_password(user, password) and user.login

        try:
            right = await self._guesses.attempt(address, name, check)
        except TooManyGuesses:
            text = f"User {name} login denied: too many failed password attempts"
            raise fault(text, status="UNAUTHORIZED") from None
        if not right or user is None:
            raise fault(WRONG_PASSWORD, status="UNAUTHORIZED")
        return self.token(user, now)

    def token(self, user: User, now: Instant) -> str:
        """Return a new token of a user."""
        content = msgspec.json.encode(Claims(user.name, user.state, now // SECOND, (now + TOKEN_LIFETIME) // SECOND))
        signed = f"{_encode_base64url(_HEADER)}.{_encode_base64url(content)}"
        return f"{signed}.{_encode_base64url(self._signature(signed))}"

    async def authenticate(self, ticket: str | None, now: Instant) -> str:
        """Return the name of the user that a token stands for. LoginRequired for a missing or invalid token."""
        if not self.login_required:
            return DEFAULT_USER
        if not ticket:
            raise LoginRequired(_NO_TOKEN)
        try:
            signed, _, signature = ticket.removeprefix("Bearer ").rpartition(".")
            # header.claims.signature, each in base64url. The comparison takes the same time wherever the difference is.
            is_valid = hmac.compare_digest(signature.encode(), _encode_base64url(self._signature(signed)).encode())
            token = msgspec.json.decode(_decode_base64url(signed.partition(".")[2]), type=Claims)
        except (ValueError, msgspec.MsgspecError):
            raise LoginRequired(_BAD_TOKEN) from None
        if not is_valid:
            raise LoginRequired(_BAD_TOKEN)
        user = await self.find(token.sub)
        # `exp` is exclusive: at that second the token is no longer valid (RFC 7519, 4.1.4).
        if user is None or user.state != token.state or not user.login or now // SECOND >= token.exp:
            raise LoginRequired(_BAD_TOKEN)
        return user.name

    async def groups_of(self, name: str) -> tuple[str, ...]:
        """Return the names of the groups that a user belongs to."""
        user = await self.find(name)
        own = () if user is None else user.groups
        return (*own, *([ADMINISTRATORS_GROUP] if name in (ROOT, DEFAULT_USER) else []), ALL_USERS_GROUP)

    async def is_administrator(self, name: str) -> bool:
        """True if the user may create and change users."""
        return ADMINISTRATORS_GROUP in await self.groups_of(name)

    async def _verify_password(self, user: User, password: str) -> bool:
        if user.name == ROOT:
            return self._root_password is None or hmac.compare_digest(self._root_password.encode(), password.encode())
        if user.secret is None:
            return not password
        salt, kept = (base64.b64decode(part) for part in (user.secret.salt, user.secret.hash))
        # Argon2id is slow by design: a thread keeps the event loop free.
        return hmac.compare_digest(kept, await self._derive(password, salt))

    def _signature(self, signed: str) -> bytes:
        return hmac.digest(self._signing_key, signed.encode(), "sha256")

    # --- the catalogue ---------------------------------------------------------------------------------------------------

    async def find(self, name: str) -> User | None:
        """Return the user with this name; None if no such user exists."""
        # Read before the user: a change in between empties the cache at the next lookup.
        version = self._engine.catalog_version
        if version != self._cached_version:
            self._cached_version, self._cached_users = version, {}
        if name not in self._cached_users:
            node = await self._find_node(_user_node(name))
            if node is None:
                return User(ROOT) if name == ROOT else None
            self._cached_users[name] = msgspec.convert(node.body, User)
        return self._cached_users[name]

    async def create(self, name: str, password: str | None, login: bool, now: Instant) -> None:
        """Create a user. GENERIC_ERROR if the name is taken, PRECONDITION_FAILED if there are too many users and groups."""
        taken = fault(f"User already exists: {name}")
        if name == ROOT:
            raise taken
        # 53 bits: the state stands in tokens, and many JSON parsers keep whole numbers exactly only up to 2^53.
        user = User(name, await self._hash_password(password), login, self._chance.getrandbits(53))
        try:
            await self._create_node(_user_node(name), msgspec.to_builtins(user), now)
        except Conflict:
            raise taken from None

    async def create_group(self, name: str, now: Instant) -> None:
        """Create a group. GENERIC_ERROR if the name is taken, PRECONDITION_FAILED if there are too many users and groups."""
        # A group of that name may have been dropped halfway: its members must not become members of this one.
        await self._end_memberships(name, now)
        try:
            await self._create_node(_group_node(name), {}, now)
        except Conflict:
            raise fault(f"Group already exists: {name}") from None

    async def change(self, name: str, password: str | None, login: bool | None, now: Instant) -> None:
        """Set the password or the right to log in; None leaves it as it is. GENERIC_ERROR for an unknown user."""
        secret, state = await self._hash_password(password), self._chance.getrandbits(53)

        def update(before: User) -> User:
            after = before if login is None else msgspec.structs.replace(before, login=login)
            return after if password is None else msgspec.structs.replace(after, secret=secret, state=state)

        await self._update_user(name, update, now)

    async def set_membership(self, name: str, group: str, belongs: bool, now: Instant) -> None:
        """Put a user into a group (`belongs`) or take the user out.

        GENERIC_ERROR for an unknown user or group, UNSUPPORTED for `root`.
        """
        if name == ROOT:
            raise _root_fault()
        stored = None if group == ADMINISTRATORS_GROUP else group
        if stored is not None and await self._find_node(_group_node(stored)) is None:
            raise unknown_group(stored)

        def update(before: User) -> User:
            others = tuple(each for each in before.groups if each != group)
            return msgspec.structs.replace(before, groups=(*others, group) if belongs else others)

        await self._update_user(name, update, now, stored)

    async def drop(self, name: str) -> None:
        """Drop a user. GENERIC_ERROR for an unknown user, UNSUPPORTED for `root`."""
        if name == ROOT:
            raise _root_fault()
        node = await self._find_node(_user_node(name))
        if node is None or not await self._engine.companions.drop(node.parent, node.name):
            raise unknown_user(name)

    async def drop_group(self, name: str, now: Instant, if_exists: bool = False) -> None:
        """Drop a group and all memberships in it. GENERIC_ERROR for an unknown group."""
        # An earlier call may have been interrupted.
        await self._end_memberships(name, now)
        node = await self._find_node(_group_node(name))
        try:
            if node is None:
                raise NotFound(name)
            # From here on no user joins, and no group of that name is created before the last member has left.
            marker = _dropped_node(name)
            await self._engine.companions.replace(node.id, marker, lambda _: Definition({}, now), now)
        except (NotFound, Conflict):
            if not if_exists:
                raise unknown_group(name) from None
        await self._end_memberships(name, now)

    async def _end_memberships(self, name: str, now: Instant) -> None:
        """Take all users out of a group that is being dropped, in batches, so that other writes come in between."""
        marker = await self._find_node(_dropped_node(name))
        if marker is None:
            return

        def leave(node: Node) -> Definition | None:
            user = msgspec.convert(node.body, User)
            if name not in user.groups:
                return None
            groups = tuple(each for each in user.groups if each != name)
            return Definition(msgspec.to_builtins(msgspec.structs.replace(user, groups=groups)), now)

        rows = await self._engine.children(marker.parent)
        members = [each.name for each in rows if each.name.startswith(_user_node("")) and leave(each) is not None]
        for start in range(0, len(members), MEMBERS_AT_ONCE):
            batch = members[start : start + MEMBERS_AT_ONCE]
            if not await self._engine.companions.redefine_each(marker, batch, leave, now):
                return  # Another call has dropped the group meanwhile.
        with contextlib.suppress(NotFound):
            await self._engine.definitions.drop(marker.id)

    async def _create_node(self, name: str, body: dict[str, Any], now: Instant) -> None:
        space = await self._engine.definitions.space(SPACE, now)
        home = await self._engine.companions.home(USERS_SPACE, space.id, now)
        # One after the other: of several at once, each would count before the first.
        async with self._creating:
            if len(await self._engine.children(home.id)) >= self._max_users:
                text = f"There are {self._max_users} users and groups, and no more may be created (--ydb-max-users)"
                raise fault(text, status="PRECONDITION_FAILED")
            await self._engine.companions.create(home.id, name, lambda _: Definition(body, now))

    async def _update_user(
        self, name: str, update: Callable[[User], User], now: Instant, group: str | None = None
    ) -> None:
        if name == ROOT:
            raise _root_fault()
        node = await self._find_node(_user_node(name))
        if node is None:
            raise unknown_user(name)

        def apply_update(before: Node | None) -> Definition:
            # The change applies to the user as stored now: another call may have changed the user in between.
            after = update(msgspec.convert((before or node).body, User))
            return Definition(msgspec.to_builtins(after), now)

        needs = None if group is None else _group_node(group)
        try:
            await self._engine.companions.replace(node.id, node.name, apply_update, now, needs=needs)
        except NotFound as gone:
            # The group or the user was dropped in between.
            if group is not None and isinstance(gone, OwnerNotFound):
                raise unknown_group(group) from None
            raise unknown_user(name) from None

    async def _hash_password(self, password: str | None) -> Secret | None:
        if not password:
            return None
        salt = self._chance.getrandbits(128).to_bytes(16, "big")
        kept = await self._derive(password, salt)
        return Secret(base64.b64encode(salt).decode(), base64.b64encode(kept).decode())

    async def _derive(self, password: str, salt: bytes) -> bytes:
        async with self._hashing:
            return await asyncio.to_thread(derive_hash, password, salt)

    async def _find_node(self, name: str) -> Node | None:
        space = await self._engine.node(SPACE)
        return None if space is None else await self._engine.node(USERS_SPACE, str(space.id), name)


def derive_hash(password: str, salt: bytes) -> bytes:
    """Return the Argon2id hash of a password."""
    from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

    # Parameters that OWASP recommends for Argon2id: 19 MiB, two passes, one lane.
    return Argon2id(salt=salt, length=32, iterations=2, lanes=1, memory_cost=19_456).derive(password.encode())


def unknown_user(name: str) -> Fault:
    """The fault of an unknown user."""
    return fault(f"User not found: {name}", status="GENERIC_ERROR")


def unknown_group(name: str) -> Fault:
    """The fault of an unknown group."""
    return fault(f"Group not found: {name}", status="GENERIC_ERROR")


def _root_fault() -> Fault:
    return fault(f"{ROOT} is given by the server's settings, and only changed there", status="UNSUPPORTED")


def _user_node(name: str) -> str:
    return f"user {name}"


def _group_node(name: str) -> str:
    return f"group {name}"


def _dropped_node(name: str) -> str:
    """Return the name of the row of a group whose members are being taken out."""
    return f"dropped group {name}"


def _encode_base64url(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def _decode_base64url(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
