"""What roles permit, by scope and data action, and the definitions and assignments that are refused."""

from __future__ import annotations

import pytest

from mayflydb.frontends.cosmos.entra.roles import (
    CREATE_ITEM,
    DATA_ACTIONS,
    DATA_CONTRIBUTOR,
    DATA_READER,
    DELETE_ITEM,
    EXECUTE_QUERY,
    PREFIX,
    READ_CHANGE_FEED,
    READ_ITEM,
    READ_METADATA,
    InvalidRoles,
    Permission,
    RoleAssignment,
    RoleDefinition,
    RoleTable,
)

C = "/dbs/shop/colls/c"
AZURE = "/subscriptions/s/resourceGroups/g/providers/Microsoft.DocumentDB/databaseAccounts/acct"


def define(*actions: str, id: str = "r", scopes: tuple[str, ...] = ("/",)) -> RoleDefinition:
    return RoleDefinition(id, (Permission(actions),), assignable_scopes=scopes)


ITEMS, CONTAINERS = PREFIX + "sqlDatabases/containers/items/*", PREFIX + "sqlDatabases/containers/*"


@pytest.mark.parametrize(
    ("actions", "assigned", "action", "asked", "permitted"),
    [
        ((READ_ITEM,), "/", READ_ITEM, C, True),
        ((READ_ITEM,), "/", DELETE_ITEM, C, False),
        ((READ_ITEM,), "/dbs/shop", READ_ITEM, C, True),
        ((READ_ITEM,), "/dbs/shop/", READ_ITEM, C, True),
        ((READ_ITEM,), C, READ_ITEM, C, True),
        ((READ_ITEM,), AZURE, READ_ITEM, C, True),
        ((READ_ITEM,), AZURE + C, READ_ITEM, C, True),
        # A name that only begins like another one is another name, and a scope is not within a smaller one.
        ((READ_ITEM,), "/dbs/sho", READ_ITEM, C, False),
        ((READ_ITEM,), C, READ_ITEM, C + "c", False),
        ((READ_ITEM,), C, READ_ITEM, "/dbs/shop/colls/C", False),
        ((READ_ITEM,), "/dbs/other", READ_ITEM, C, False),
        ((READ_METADATA,), C, READ_METADATA, "/dbs/shop", False),
        ((READ_METADATA,), "/dbs/shop", READ_METADATA, "/", False),
        ((ITEMS,), "/", CREATE_ITEM, C, True),
        ((ITEMS,), "/", EXECUTE_QUERY, C, False),
        ((CONTAINERS,), "/", EXECUTE_QUERY, C, True),
        ((CONTAINERS,), "/", CREATE_ITEM, C, False),
        ((CONTAINERS, ITEMS), "/", READ_METADATA, C, False),
        ((), "/", READ_ITEM, C, False),
    ],
)
def test_roles(actions: tuple[str, ...], assigned: str, action: str, asked: str, permitted: bool) -> None:
    table = RoleTable([define(*actions)], [RoleAssignment("Alice", "R", assigned)])
    assert table.permits(["alice"], action, asked) is permitted
    assert table.permits(["nobody", "ALICE"], action, asked) is permitted
    assert not table.permits(["bob"], action, asked)
    assert not table.permits([], action, asked)


@pytest.mark.parametrize(
    ("role", "actions"),
    [
        (DATA_READER, {READ_METADATA, READ_ITEM, EXECUTE_QUERY, READ_CHANGE_FEED}),
        (AZURE + "/sqlRoleDefinitions/" + DATA_CONTRIBUTOR, DATA_ACTIONS),
    ],
)
def test_built_in_roles(role: str, actions: set[str]) -> None:
    table = RoleTable((), [RoleAssignment("a", role, "/dbs/shop")])
    assert {action for action in DATA_ACTIONS if table.permits(["a"], action, C)} == actions
    assert {action for action in DATA_ACTIONS if table.permits_anywhere(["a"], action)} == actions
    assert not any(table.permits(["a"], action, "/dbs/other") for action in DATA_ACTIONS)


@pytest.mark.parametrize(
    ("definitions", "assignments", "said"),
    [
        ([define("Microsoft.DocumentDB/databaseAccounts/*")], [], "no data action"),
        ([define("read")], [], "no data action"),
        ([define(), define()], [], "two role definitions"),
        ([define(id=DATA_READER)], [], "two role definitions"),
        ([], [RoleAssignment("a", "nosuch")], "nosuch, is not defined"),
        ([define()], [RoleAssignment("a", "r", "/colls/c")], "scope /colls/c"),
        ([define()], [RoleAssignment("a", "r", "/dbs")], "scope /dbs"),
        ([define()], [RoleAssignment("a", "r", "/dbs/x/colls")], "scope"),
        ([define()], [RoleAssignment("a", "r", "/dbs/x/colls/y/docs/z")], "scope"),
        ([define()], [RoleAssignment("a", "r", "/dbs//colls/y")], "scope"),
        ([define(scopes=("/dbs/a",))], [RoleAssignment("a", "r", "/")], "cannot be assigned"),
        ([define(scopes=("/dbs/a",))], [RoleAssignment("a", "r", "/dbs/ab")], "cannot be assigned"),
    ],
)
def test_refusals(definitions: list[RoleDefinition], assignments: list[RoleAssignment], said: str) -> None:
    with pytest.raises(InvalidRoles, match=said):
        RoleTable(definitions, assignments)
