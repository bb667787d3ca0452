"""Commands that create, change and drop roles, and that describe them.

Rules: https://www.mongodb.com/docs/manual/reference/command/nav-role-management/
"""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from mayflydb.frontends.mongo import arguments
from mayflydb.frontends.mongo.accounts.custom_roles import MAX_PRIVILEGES, CustomRole
from mayflydb.frontends.mongo.accounts.privileges import Privilege, check_targets, merge, parse_privilege, subtract
from mayflydb.frontends.mongo.accounts.roles import ALL_DATABASE_RIGHTS, RIGHTS, Role, is_built_in
from mayflydb.frontends.mongo.calls import Call
from mayflydb.frontends.mongo.commands.role_arguments import check_count, parse_role, permitted_roles
from mayflydb.frontends.mongo.services import CommandEntry, Services
from mayflydb.query.mongo.faults import MqlError, bad_value, type_mismatch
from mayflydb.query.mongo.values import Document, type_name

ADMIN: Final = "admin"


async def create_role(services: Services, call: Call) -> Document:
    """Create a role. Raise MqlError 51002 if one of this name exists."""
    call.check_fields({"privileges", "roles", "authenticationRestrictions"})
    _refuse_restrictions(call)
    for field in ("privileges", "roles"):
        if field not in call.body:
            raise arguments.missing_argument(field, call.name)
    name = _role_name(call)
    if call.database == "local":
        raise bad_value("Cannot create roles in the local database")
    role = CustomRole(name, call.database)
    role = replace(role, privileges=_permitted_privileges(services, call, role.role))
    role = replace(role, roles=await _inheritable_roles(services, call, role.role))
    await services.accounts.roles.create(role, call.now)
    return {}


async def update_role(services: Services, call: Call) -> Document:
    """Replace the privileges of a role, or the roles that it inherits."""
    call.check_fields({"privileges", "roles", "authenticationRestrictions"})
    _refuse_restrictions(call)
    if not any(field in call.body for field in ("privileges", "roles")):
        raise bad_value("Must specify at least one field to update in updateRole")
    role = await _get_role(services, call)
    if "privileges" in call.body:
        role = replace(role, privileges=_permitted_privileges(services, call, role.role))
    if "roles" in call.body:
        role = replace(role, roles=await _inheritable_roles(services, call, role.role))
    await services.accounts.roles.replace(role, call.now)
    return {}


async def drop_role(services: Services, call: Call) -> Document:
    """Drop a role, and take it from all users and roles."""
    call.check_fields(())
    role = await _get_role(services, call)
    await services.accounts.drop_roles([role.role], call.now)
    return {}


async def drop_all_roles(services: Services, call: Call) -> Document:
    """Drop the roles of a database that commands created."""
    call.check_fields(())
    found = [role for role in await services.accounts.roles.load() if role.db == call.database]
    await services.accounts.drop_roles(found, call.now)
    return {"n": len(found)}


async def grant_roles(services: Services, call: Call) -> Document:
    """Let a role inherit others."""
    call.check_fields({"roles"})
    role = await _get_role(services, call)
    added = await _inheritable_roles(services, call, role.role)
    roles = tuple(dict.fromkeys((*role.roles, *added)))
    check_count(roles)
    await services.accounts.roles.replace(replace(role, roles=roles), call.now)
    return {}


async def revoke_roles(services: Services, call: Call) -> Document:
    """End that a role inherits others."""
    call.check_fields({"roles"})
    role = await _get_role(services, call)
    gone = await permitted_roles(services, call)
    left = tuple(each for each in role.roles if each not in gone)
    await services.accounts.roles.replace(replace(role, roles=left), call.now)
    return {}


async def grant_privileges(services: Services, call: Call) -> Document:
    """Add privileges to a role."""
    call.check_fields({"privileges"})
    role = await _get_role(services, call)
    added = _permitted_privileges(services, call, role.role)
    if not added:
        raise bad_value("Must specify at least one privilege")
    privileges = merge((*role.privileges, *added))
    _check_privilege_count(privileges)
    await services.accounts.roles.replace(replace(role, privileges=privileges), call.now)
    return {}


async def revoke_privileges(services: Services, call: Call) -> Document:
    """Take privileges from a role: actions from exactly the resources that are named."""
    call.check_fields({"privileges"})
    role = await _get_role(services, call)
    gone = _permitted_privileges(services, call, role.role)
    left = subtract(role.privileges, gone)
    await services.accounts.roles.replace(replace(role, privileges=left), call.now)
    return {}


def _role_name(call: Call) -> str:
    name = arguments.text(call.body, call.name, call.name)
    if not name or "\0" in name:
        raise bad_value("Role name must be non-empty")
    return name


async def _get_role(services: Services, call: Call) -> CustomRole:
    return await services.accounts.roles.get(Role(_role_name(call), call.database))


def _refuse_restrictions(call: Call) -> None:
    if call.body.get("authenticationRestrictions"):
        raise MqlError(238, f"{call.name} with 'authenticationRestrictions' is not supported")


def _permitted_privileges(services: Services, call: Call, role: Role) -> tuple[Privilege, ...]:
    """The privileges in a command. Raise MqlError 13 for one on a database whose users the sender does not manage, 9, 49."""
    given = arguments.array(call.body, "privileges", call.name)
    _check_privilege_count(given)
    privileges = merge(map(parse_privilege, given))
    check_targets(role, privileges)
    for each in privileges:
        services.require_right(call, "users", ADMIN if each.database is None else each.database)
    return privileges


def _check_privilege_count(privileges: Any) -> None:
    if len(privileges) > MAX_PRIVILEGES:
        raise bad_value(f"A role has at most {MAX_PRIVILEGES} privileges")


async def _inheritable_roles(services: Services, call: Call, role: Role) -> tuple[Role, ...]:
    """The roles that a role shall inherit. Raise MqlError 49 for one of another database, or a cycle."""
    roles = await permitted_roles(services, call)
    if role.db != ADMIN and any(each.db != role.db for each in roles):
        raise MqlError(49, f"Roles on the '{role.db}' database cannot be granted roles from other databases")
    if role in (await services.accounts.roles.resolve(roles)).roles or role in roles:
        text = f"Granting roles to {role.role}@{role.db} would introduce a cycle in the role graph"
        raise MqlError(49, text)
    return roles


async def roles_info(services: Services, call: Call) -> Document:
    """Describe one role, several, or those of a database. Everyone may ask about the roles that they have."""
    call.check_fields({"showPrivileges", "showBuiltinRoles", "showAuthenticationRestrictions"})
    arguments.flag(call.body, "showBuiltinRoles", call.name)
    if arguments.flag(call.body, "showAuthenticationRestrictions", call.name):
        raise MqlError(238, "rolesInfo with showAuthenticationRestrictions is not supported")
    show = call.body.get("showPrivileges")
    if show == "asUserFragment":
        raise MqlError(238, "rolesInfo with showPrivileges: 'asUserFragment' is not supported")
    roles = await _asked_roles(services, call)
    return {"roles": [await _describe_role(services, role, bool(show)) for role in roles]}


async def _asked_roles(services: Services, call: Call) -> list[Role]:
    asked, known = call.body[call.name], await services.accounts.roles.load()
    if isinstance(asked, int | float):
        services.require_right(call, "users")
        found = [role for role in known if role.db == call.database]
        if call.body.get("showBuiltinRoles"):
            names = [*RIGHTS, *(ALL_DATABASE_RIGHTS if call.database == ADMIN else ())]
            found += [Role(name, call.database) for name in names]
        return sorted(found, key=lambda role: role.role)
    if not isinstance(asked, str | dict | list):
        raise type_mismatch(f"{call.name}.{call.name}", type_name(asked), "string", "object", "array", "int")
    wanted = [parse_role(call, each) for each in (asked if isinstance(asked, list) else [asked])]
    check_count(wanted)
    user = call.connection.user
    for role in wanted:
        if user is None or role not in user.all_roles:
            services.require_right(call, "users", role.db)
    return [role for role in wanted if is_built_in(role) or role in known]


async def _describe_role(services: Services, role: Role, with_privileges: bool) -> Document:
    roles = services.accounts.roles
    own = (await roles.load()).get(role)
    direct = () if own is None else own.roles
    given = await roles.resolve(direct)
    shown: Document = {
        "_id": f"{role.db}.{role.role}",
        "role": role.role,
        "db": role.db,
        "isBuiltin": own is None,
        "roles": [{"role": each.role, "db": each.db} for each in direct],
        "inheritedRoles": [{"role": each.role, "db": each.db} for each in given.roles],
    }
    if with_privileges:
        everything = await roles.resolve([role])
        of_its_own = everything.all_privileges if own is None else own.privileges
        shown["privileges"] = [each.describe() for each in of_its_own]
        shown["inheritedPrivileges"] = [each.describe() for each in everything.all_privileges]
    return shown


async def invalidate_user_cache(services: Services, call: Call) -> Document:
    """Read the rights of all connections anew."""
    call.check_fields(())
    await services.accounts.refresh()
    return {}


HANDLERS: Final[dict[str, CommandEntry]] = {
    "createRole": CommandEntry(create_role, "users", help="Makes a role."),
    "updateRole": CommandEntry(update_role, "users", help="Changes a role's privileges, or what it inherits."),
    "dropRole": CommandEntry(drop_role, "users", help="Removes a role, also from users."),
    "dropAllRolesFromDatabase": CommandEntry(drop_all_roles, "users", help="Removes the roles of a database."),
    "grantRolesToRole": CommandEntry(grant_roles, "users", help="Lets a role inherit others."),
    "revokeRolesFromRole": CommandEntry(revoke_roles, "users", help="Ends that a role inherits others."),
    "grantPrivilegesToRole": CommandEntry(grant_privileges, "users", help="Adds privileges to a role."),
    "revokePrivilegesFromRole": CommandEntry(revoke_privileges, "users", help="Takes privileges from a role."),
    "rolesInfo": CommandEntry(roles_info, "anyone", help="Describes roles."),
    "invalidateUserCache": CommandEntry(invalidate_user_cache, "server", help="Reads the rights of users anew."),
}
