"""Commands that create, change and drop users."""

from __future__ import annotations

import asyncio
import base64
from typing import Any, Final
from uuid import UUID

import msgspec
from bson import Binary

from mayflydb.frontends.mongo.accounts import scram
from mayflydb.frontends.mongo.accounts.roles import User
from mayflydb.frontends.mongo.accounts.scram import Credential
from mayflydb.frontends.mongo.accounts.users import missing_user
from mayflydb.frontends.mongo.calls import Call
from mayflydb.frontends.mongo.commands.role_arguments import check_count, permitted_roles
from mayflydb.frontends.mongo.services import CommandEntry, Services
from mayflydb.query.mongo.faults import MqlError, bad_value, type_mismatch
from mayflydb.query.mongo.values import Document, decode, encode, type_name

_USER_FIELDS: Final = ("pwd", "roles", "customData", "mechanisms", "digestPassword")
_UUID: Final = 4

MAX_PASSWORD: Final = 4096
"""The most characters of a password. Each is looked up in a dozen tables, and 1 MB took seconds."""

MAX_CUSTOM_BYTES: Final = 1024 * 1024
"""The most bytes of a user's custom data, which is read with the user."""


async def create_user(services: Services, call: Call) -> Document:
    """Create a user. Raise MqlError 51003 if one of this name exists."""
    call.check_fields(_USER_FIELDS)
    for field in ("pwd", "roles"):
        if field not in call.body:
            raise MqlError(40414, f"BSON field '{call.name}.{field}' is missing but a required field")
    user = await _apply_fields(services, call, User(_user_name(call), call.database, id=str(services.new_uuid())))
    await services.accounts.create(user, call.now)
    return {}


async def update_user(services: Services, call: Call) -> Document:
    """Change the given fields of a user."""
    call.check_fields(_USER_FIELDS)
    if not any(field in call.body for field in _USER_FIELDS):
        raise bad_value("Must specify at least one field to update in updateUser")
    before = await _get_user(services, call)
    await services.accounts.replace(await _apply_fields(services, call, before), call.now)
    return {}


async def drop_user(services: Services, call: Call) -> Document:
    """Drop a user. Raise MqlError 11 if there is none."""
    call.check_fields(())
    await services.accounts.drop(await _get_user(services, call))
    return {}


async def drop_all_users(services: Services, call: Call) -> Document:
    """Drop the users of one database, except those of the settings."""
    call.check_fields(())
    dropped = 0
    for user in await services.accounts.list_users():
        if user.db == call.database and not user.fixed:
            await services.accounts.drop(user)
            dropped += 1
    return {"n": dropped}


async def grant_roles(services: Services, call: Call) -> Document:
    """Give roles to a user. Roles that the user has already are ignored."""
    call.check_fields(("roles",))
    before = await _get_user(services, call)
    roles = await permitted_roles(services, call)
    added = tuple(role for role in roles if role not in before.roles)
    check_count((*before.roles, *added))
    after = msgspec.structs.replace(before, roles=before.roles + added)
    await services.accounts.replace(after, call.now)
    return {}


async def revoke_roles(services: Services, call: Call) -> Document:
    """Take roles from a user. Roles that the user does not have are ignored."""
    call.check_fields(("roles",))
    before = await _get_user(services, call)
    gone = await permitted_roles(services, call)
    after = msgspec.structs.replace(before, roles=tuple(role for role in before.roles if role not in gone))
    await services.accounts.replace(after, call.now)
    return {}


async def users_info(services: Services, call: Call) -> Document:
    """Describe one user, several, those of a database, or all. Everyone may ask about their own user."""
    call.check_fields(
        ("showCredentials", "showCustomData", "filter", "showPrivileges", "showAuthenticationRestrictions")
    )
    for field in ("filter", "showAuthenticationRestrictions"):
        if call.body.get(field):
            raise MqlError(238, f"usersInfo with {field} is not supported")
    asked = call.body[call.name]
    own = call.connection.user
    if isinstance(asked, dict) and "forAllDBs" in asked:
        services.require_right(call, "users", "admin")
        users = await services.accounts.list_users()
    elif isinstance(asked, int | float):
        services.require_right(call, "users")
        users = [user for user in await services.accounts.list_users() if user.db == call.database]
    else:
        users = []
        for each in asked if isinstance(asked, list) else [asked]:
            name, database = _parse_user_name(call, each)
            if own is None or (own.name, own.db) != (name, database):
                services.require_right(call, "users", database)
            user = await services.accounts.find(database, name)
            users += [] if user is None else [user]
    with_keys, with_data = bool(call.body.get("showCredentials")), bool(call.body.get("showCustomData", True))
    shown = [_describe_user(user, with_keys, with_data) for user in users]
    if call.body.get("showPrivileges"):
        if not isinstance(asked, str | dict | list) or (isinstance(asked, dict) and "forAllDBs" in asked):
            raise MqlError(20, "Privilege details can only be shown for users that are named")
        for user, line in zip(users, shown, strict=True):
            given = await services.accounts.roles.resolve(user.roles)
            line["inheritedRoles"] = [{"role": role.role, "db": role.db} for role in given.roles]
            line["inheritedPrivileges"] = [each.describe() for each in given.all_privileges]
    return {"users": shown}


def _describe_user(user: User, with_keys: bool, with_data: bool) -> Document:
    shown: Document = {"_id": user.key, "user": user.name, "db": user.db}
    if user.id:
        shown["userId"] = Binary(UUID(user.id).bytes, _UUID)
    if with_data and user.custom:
        shown["customData"] = decode(base64.b64decode(user.custom))
    shown["roles"] = [{"role": role.role, "db": role.db} for role in user.roles]
    if with_keys:
        shown["credentials"] = {
            mechanism: {
                "iterationCount": kept.iterations,
                "salt": kept.salt,
                "storedKey": kept.stored_key,
                "serverKey": kept.server_key,
            }
            for mechanism, kept in user.credentials.items()
        }
    shown["mechanisms"] = list(user.credentials)
    return shown


# --- arguments -------------------------------------------------------------------------------------------------------


def _user_name(call: Call) -> str:
    name = call.body[call.name]
    if not isinstance(name, str):
        raise type_mismatch(f"{call.name}.{call.name}", type_name(name), "string")
    if not name or "\0" in name:
        raise bad_value("User document needs 'user' field to be non-empty")
    return name


async def _get_user(services: Services, call: Call) -> User:
    name = _user_name(call)
    user = await services.accounts.find(call.database, name)
    if user is None:
        raise missing_user(name, call.database)
    return user


async def _apply_fields(services: Services, call: Call, before: User) -> User:
    """A user with the changes that the command's fields ask for."""
    body = call.body
    after = before
    if "roles" in body:
        after = msgspec.structs.replace(after, roles=await permitted_roles(services, call))
    if "customData" in body:
        data = body["customData"]
        if not isinstance(data, dict):
            raise type_mismatch(f"{call.name}.customData", type_name(data), "object")
        # In base64, since the catalogue stores JSON, which has no types of BSON.
        custom = encode(data)
        if len(custom) > MAX_CUSTOM_BYTES:
            raise bad_value(f"{call.name}.customData has more than {MAX_CUSTOM_BYTES} bytes")
        after = msgspec.structs.replace(after, custom=base64.b64encode(custom).decode())
    if "mechanisms" in body and "pwd" not in body:
        raise bad_value("mechanisms change with a password")
    if "pwd" in body:
        after = msgspec.structs.replace(after, credentials=await _derive_credentials(services, call, before))
    return after


async def _derive_credentials(services: Services, call: Call, before: User) -> dict[str, Credential]:
    password, body = _nonempty_text(call, "pwd"), call.body
    if len(password) > MAX_PASSWORD:
        raise bad_value(f"{call.name}.pwd has more than {MAX_PASSWORD} characters")
    if body.get("digestPassword", True) is not True:
        raise MqlError(238, "digestPassword: false is not supported: passwords are hashed by the server")
    mechanisms = body.get("mechanisms", list(before.credentials) or [scram.SHA_256])
    if not isinstance(mechanisms, list) or not mechanisms:
        raise bad_value("mechanisms field must not be empty")
    if unknown := [each for each in mechanisms if each not in scram.ITERATIONS]:
        raise bad_value(f"Unknown auth mechanism '{unknown[0]}'")
    found: dict[str, Credential] = {}
    for mechanism in mechanisms:
        size = scram.salt_length(mechanism)
        salt = services.chance.getrandbits(8 * size).to_bytes(size, "big")
        try:
            # A credential takes thousands of hashes: too many for the event loop.
            async with services.hashing:
                derivation = asyncio.to_thread(scram.derive_credential, mechanism, before.name, password, salt)
                found[mechanism] = await derivation
        except ValueError as error:
            raise bad_value(str(error)) from None
    return found


def _nonempty_text(call: Call, field: str) -> str:
    """A string that is not empty."""
    given = call.body[field]
    if not isinstance(given, str):
        raise type_mismatch(f"{call.name}.{field}", type_name(given), "string")
    if not given:
        raise bad_value(f"{field} must not be empty")
    return given


def _parse_user_name(call: Call, given: Any) -> tuple[str, str]:
    if isinstance(given, str):
        return given, call.database
    if isinstance(given, dict) and isinstance(given.get("user"), str) and isinstance(given.get("db"), str):
        return given["user"], given["db"]
    raise bad_value("User names must be either strings or objects with user and db")


HANDLERS: Final[dict[str, CommandEntry]] = {
    "createUser": CommandEntry(create_user, "users", help="Makes a user."),
    "updateUser": CommandEntry(update_user, "users", help="Changes a user's password, roles or data."),
    "dropUser": CommandEntry(drop_user, "users", help="Removes a user."),
    "dropAllUsersFromDatabase": CommandEntry(drop_all_users, "users", help="Removes the users of a database."),
    "grantRolesToUser": CommandEntry(grant_roles, "users", help="Gives roles to a user."),
    "revokeRolesFromUser": CommandEntry(revoke_roles, "users", help="Takes roles from a user."),
    "usersInfo": CommandEntry(users_info, "anyone", help="Describes users."),
}
