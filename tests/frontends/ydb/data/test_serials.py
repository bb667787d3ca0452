"""Serial columns: each row that names no number gets the next one, and no number is given twice.

Sources: https://ydb.tech/docs/en/yql/reference/types/serial and `../syntax/alter-sequence`; `kqp_pg_ut.cpp`,
`kqp_query_service_ut.cpp` and `create_table_formatter` tests of https://github.com/ydb-platform/ydb.
"""

from __future__ import annotations

from typing import Any

import pytest

from mayflydb.frontends.ydb.schemes.copying import TableCopy, copy_tables
from mayflydb.frontends.ydb.serials import Sequence, SequenceChange, change_sequence, draw_numbers
from mayflydb.frontends.ydb.transactions import TransactionControl
from mayflydb.query.yql.faults import Fault

USERS = "CREATE TABLE users (hash Uint64, id Serial, name Utf8, PRIMARY KEY (hash, id))"
PATH = "`/local/users/_serial_column_id`"


@pytest.fixture
def users(place: Any) -> Any:
    place.parts(USERS)
    return place


def ids(place: Any, table: str = "users") -> list[Any]:
    return [id for (id,) in place.rows(f"SELECT id FROM {table} ORDER BY id")]


# --- sequences -------------------------------------------------------------------------------------------------------

TEN = Sequence(high=10)
# The sequence, how many numbers are asked for, those that are given, what is given next and whether it was given already.
DRAWS: list[tuple[Sequence, int, list[int], int, bool]] = [
    (TEN, 0, [], 1, False),
    (TEN, 3, [1, 2, 3], 4, False),
    (Sequence(10, next=9), 1, [9], 10, False),
    (Sequence(10, next=9), 2, [9, 10], 10, True),
    (Sequence(10, next=9), 5, [9, 10], 10, True),
    (Sequence(10, next=10, used=True), 1, [], 10, True),
    (Sequence(10, next=10, used=True, cycle=True), 2, [1, 2], 3, False),
    (Sequence(3, next=2, cycle=True), 7, [2, 3, 1, 2, 3, 1, 2], 3, False),
    (Sequence(10, increment=4), 9, [1, 5, 9], 9, True),
    (Sequence(10, increment=4, next=9, used=True), 1, [], 9, True),
    (Sequence(-1, low=-5, start=-1, increment=-2, next=-1), 9, [-1, -3, -5], -5, True),
    (Sequence(2**63 - 1, next=2**63 - 2), 3, [2**63 - 2, 2**63 - 1], 2**63 - 1, True),
]


@pytest.mark.parametrize(("sequence", "count", "numbers", "following", "used"), DRAWS)
def test_draws(sequence: Sequence, count: int, numbers: list[int], following: int, used: bool) -> None:
    found = draw_numbers(sequence, count)
    assert (list(found.numbers), found.count) == (numbers, len(numbers))
    assert (found.after.next, found.after.used) == (following, used)


# What is altered, and what is drawn before and after it.
ALTERED: list[tuple[SequenceChange, list[int]]] = [
    (SequenceChange(), [4, 5]),
    (SequenceChange(increment=5), [4, 9]),
    (SequenceChange(start=100), [4, 5]),
    (SequenceChange(start=100, restart=True), [100, 101]),
    (SequenceChange(restart=True), [1, 2]),
    (SequenceChange(restart=True, restart_at=50), [50, 51]),
    (SequenceChange(increment=5, restart=True, restart_at=1000), [1000, 1005]),
]


@pytest.mark.parametrize(("change", "numbers"), ALTERED)
def test_changes(change: SequenceChange, numbers: list[int]) -> None:
    state = draw_numbers(Sequence(2**31 - 1), 3).after
    assert list(draw_numbers(change_sequence(state, change), 2).numbers) == numbers


IMPOSSIBLE = [
    (SequenceChange(start=11), "START value (11) cannot be greater than MAXVALUE (10)"),
    (SequenceChange(start=0), "START value (0) cannot be less than MINVALUE (1)"),
    (SequenceChange(restart=True, restart_at=11), "RESTART value (11) cannot be greater than MAXVALUE (10)"),
    (SequenceChange(increment=0), "INCREMENT must not be zero"),
]


@pytest.mark.parametrize(("change", "said"), IMPOSSIBLE)
def test_changes_that_cannot_be(change: SequenceChange, said: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - its text is compared below.
        change_sequence(TEN, change)
    assert str(caught.value) == said


# --- rows ------------------------------------------------------------------------------------------------------------


def test_each_way_to_make_a_row_draws_the_next_number(users: Any) -> None:
    users.parts("UPSERT INTO users (hash, name) VALUES (1, 'a')")
    users.parts("INSERT INTO users (hash, name) VALUES (2, 'b')")
    users.parts("REPLACE INTO users (hash, name) VALUES (3, 'c')")
    users.parts("UPSERT INTO users (hash, name) SELECT 4ul AS hash, 'd'u AS name")
    users.parts("INSERT INTO users (hash, name) VALUES (5, 'e'), (6, 'f')")
    assert users.rows("SELECT * FROM users ORDER BY id") == [
        (number, number, name) for number, name in enumerate("abcdef", 1)
    ]


def test_a_number_that_is_named_does_not_move_the_sequence(users: Any) -> None:
    users.parts("UPSERT INTO users (hash, id, name) VALUES (1, 10, 'x')")
    users.parts("UPSERT INTO users (hash, name) VALUES (1, 'y')")
    assert ids(users) == [1, 10]


def test_what_was_drawn_is_returned(users: Any) -> None:
    assert users.rows("INSERT INTO users (hash, name) VALUES (7, 'a'), (7, 'b') RETURNING id, name") == [
        (1, "a"),
        (2, "b"),
    ]
    assert users.rows("UPSERT INTO users (hash, name) VALUES (7, 'c') RETURNING id") == [(3,)]


def test_numbers_are_not_given_back(users: Any) -> None:
    id = users.begin()
    users.within(id, "INSERT INTO users (hash, name) VALUES (1, 'a')")
    assert users.within(id, "SELECT id FROM users") == [(1,)]
    users.executor.transactions(users.session).end(users.executor.transactions(users.session).get(id))
    users.parts("INSERT INTO users (hash, name) VALUES (1, 'b')")
    assert ids(users) == [2]
    refused = users.refusal("INSERT INTO users (hash, id, name) VALUES (1, 2, 'c')")
    assert refused.status == "PRECONDITION_FAILED"
    users.parts("INSERT INTO users (hash, name) VALUES (1, 'd')")
    assert ids(users) == [2, 3]


def test_two_open_transactions_have_different_numbers(users: Any) -> None:
    one, two = users.begin(), users.begin()
    for id in (one, two, one):
        users.within(id, "INSERT INTO users (hash, name) VALUES (1, 'a')")
    users.commit(two)
    users.commit(one)
    assert ids(users) == [1, 2, 3]


COUNTED = "CREATE TABLE counted (id Uint64, number SmallSerial, name Utf8, PRIMARY KEY (id))"


def test_an_upsert_leaves_the_number_of_a_row_that_is_there(place: Any) -> None:
    place.parts(COUNTED)
    for name in "ab":
        place.parts(f"UPSERT INTO counted (id, name) VALUES (1, '{name}')")
    assert place.rows("SELECT * FROM counted") == [(1, "b", 1)]
    id = place.begin()
    place.within(id, "UPSERT INTO counted (id, name) VALUES (1, 'c'), (2, 'd')", commit=True)
    rows = place.rows("SELECT id, number, name FROM counted ORDER BY id")
    assert [(id, name) for id, _, name in rows] == [(1, "c"), (2, "d")]
    assert rows[0][1] == 1
    place.parts("REPLACE INTO counted (id, name) VALUES (1, 'e')")
    assert place.rows("SELECT number FROM counted WHERE id = 1") != [(1,)]


@pytest.mark.parametrize(
    ("text", "status", "said"),
    [
        (
            "UPSERT INTO users (hash, id) VALUES (1, NULL)",
            "BAD_REQUEST",
            "Can't set NULL or optional value to not null",
        ),
        ("UPSERT INTO users (name) VALUES ('x')", "PRECONDITION_FAILED", "Missing key column in input type: hash"),
        ("UPDATE users ON (hash, name) VALUES (1, 'x')", "PRECONDITION_FAILED", "Missing key column in input type: id"),
    ],
)
def test_what_still_must_be_named(users: Any, text: str, status: str, said: str) -> None:
    refused = users.refusal(text)
    assert refused.status == status
    assert refused.message.startswith(said)


@pytest.mark.parametrize(("type", "last"), [("Serial2", 2**15 - 1), ("Serial4", 2**31 - 1), ("BigSerial", 2**63 - 1)])
def test_a_sequence_ends(place: Any, type: str, last: int) -> None:
    place.parts(f"CREATE TABLE t (id {type}, v Utf8, PRIMARY KEY (id))")
    place.parts(f"ALTER SEQUENCE `/local/t/_serial_column_id` RESTART WITH {last - 1}")
    place.parts("INSERT INTO t (v) VALUES ('a')")
    found = place.refusal("INSERT INTO t (v) VALUES ('b'), ('c')")
    assert (found.status, [each.message for each in found.issues]) == (
        "SCHEME_ERROR",
        ["Failed to get next val for sequence: /local/t/_serial_column_id, status: SCHEME_ERROR"],
    )
    (cause,) = found.issues[0].issues
    assert cause.code == 200503
    assert cause.message.endswith("doesn't have any more values available")
    # What was left of it is used up, as for rows that are written one by one.
    assert place.refusal("INSERT INTO t (v) VALUES ('d')").status == "SCHEME_ERROR"
    assert ids(place, "t") == [last - 1]


def test_several_columns_count_for_themselves(place: Any) -> None:
    place.parts("CREATE TABLE t (a Serial, b BigSerial, v Utf8, PRIMARY KEY (a))")
    place.parts("ALTER SEQUENCE `/local/t/_serial_column_b` START WITH 100 INCREMENT BY 10 RESTART")
    place.parts("INSERT INTO t (v) VALUES ('x'), ('y')")
    place.parts("INSERT INTO t (v, a) VALUES ('z', 50)")
    assert place.rows("SELECT a, b FROM t ORDER BY a") == [(1, 100), (2, 110), (50, 120)]


# --- schemes ---------------------------------------------------------------------------------------------------------

SHOWN = """CREATE TABLE `shown` (
    `Key1` Uint32,
    `Key2` Serial8 NOT NULL,
    `Key3` Serial2 NOT NULL,
    `Value1` Serial4 NOT NULL,
    `Value2` Utf8,
    PRIMARY KEY (`Key1`, `Key2`, `Key3`)
);

ALTER SEQUENCE `/local/shown/_serial_column_Key2` START WITH 150;

ALTER SEQUENCE `/local/shown/_serial_column_Key3` RESTART WITH 5;

ALTER SEQUENCE `/local/shown/_serial_column_Value1` START WITH 101 INCREMENT BY 404 RESTART;
"""


def test_show_create_tells_of_sequences(place: Any) -> None:
    place.parts(
        "CREATE TABLE shown (Key1 Uint32, Key2 BigSerial, Key3 SmallSerial, Value1 Serial, Value2 Utf8, "
        "PRIMARY KEY (Key1, Key2, Key3))"
    )
    for change in (
        "Key2` START WITH 150 INCREMENT BY 300",
        "Key2` INCREMENT 1",
        "Key3` RESTART WITH 5",
        "Value1` START WITH 101",
        "Value1` INCREMENT 404 RESTART",
    ):
        place.parts(f"ALTER SEQUENCE IF EXISTS `/local/shown/_serial_column_{change}")
    assert place.rows("SHOW CREATE TABLE shown")[0][0] == SHOWN
    place.parts("DROP TABLE shown")
    place.parts(SHOWN)
    assert place.rows("SHOW CREATE TABLE shown")[0][0] == SHOWN


@pytest.mark.parametrize(
    ("text", "status", "said"),
    [
        (f"ALTER SEQUENCE {PATH} INCREMENT BY 0", "BAD_REQUEST", "INCREMENT must not be zero"),
        (
            f"ALTER SEQUENCE {PATH} RESTART WITH 2147483648",
            "BAD_REQUEST",
            "RESTART value (2147483648) cannot be greater",
        ),
        ("ALTER SEQUENCE `/local/users/_serial_column_name` RESTART", "SCHEME_ERROR", "Path does not exist"),
        ("ALTER SEQUENCE `/local/none/_serial_column_id` RESTART", "SCHEME_ERROR", "Path does not exist"),
        (
            "ALTER TABLE users ADD COLUMN n Serial",
            "GENERIC_ERROR",
            "Column addition with serial data type is unsupported",
        ),
        ("ALTER TABLE users ALTER COLUMN id DROP NOT NULL", "BAD_REQUEST", "Cannot alter serial column 'id'"),
        ("ALTER TABLE users DROP COLUMN id", "BAD_REQUEST", "Can't drop key column: 'id'"),
        ("CREATE TABLE t (id Serial DEFAULT 5, PRIMARY KEY (id))", "GENERIC_ERROR", "Default setting for id column"),
        (
            "CREATE TABLE t (id Serial, v Utf8, PRIMARY KEY (id)) WITH (STORE = COLUMN)",
            "SCHEME_ERROR",
            "Sequences are not supported for column tables",
        ),
    ],
)
def test_refusals(users: Any, text: str, status: str, said: str) -> None:
    found = users.refusal(text)
    assert said in found.message, found.message
    assert found.status == status


def test_a_sequence_that_is_not_there_may_be_let_alone(users: Any) -> None:
    users.parts("ALTER SEQUENCE IF EXISTS `/local/none/_serial_column_id` RESTART")


def test_a_dropped_column_takes_its_sequence_along(place: Any) -> None:
    place.parts(COUNTED)
    place.parts("UPSERT INTO counted (id) VALUES (1)")
    place.parts("ALTER TABLE counted DROP COLUMN number")
    place.parts("UPSERT INTO counted (id) VALUES (2)")
    assert place.rows("SELECT * FROM counted ORDER BY id") == [(1, None), (2, None)]


def test_a_renamed_table_goes_on_counting(users: Any) -> None:
    users.parts("INSERT INTO users (hash) VALUES (1)")
    users.parts("ALTER TABLE users RENAME TO people")
    users.parts("INSERT INTO people (hash) VALUES (1)")
    assert ids(users, "people") == [1, 2]
    users.parts("ALTER SEQUENCE `/local/people/_serial_column_id` RESTART WITH 9")
    users.parts("INSERT INTO people (hash) VALUES (1)")
    assert ids(users, "people") == [1, 2, 9]


def test_a_copy_counts_on_for_itself(users: Any) -> None:
    users.parts("INSERT INTO users (hash) VALUES (1), (2)")
    users.run(copy_tables(users.schemes, [TableCopy("/local/users", "/local/people")], users.now))
    users.parts("INSERT INTO people (hash) VALUES (3)")
    users.parts("INSERT INTO users (hash) VALUES (3), (4)")
    assert (ids(users, "people"), ids(users)) == ([1, 2, 3], [1, 2, 3, 4])


def nodes_of_sequences(place: Any) -> int:
    async def counted() -> int:
        space = await place.engine.node("ydb sequences")
        return 0 if space is None else len(await place.engine.children(space.id))

    found: int = place.run(counted())
    return found


def test_a_dropped_table_leaves_nothing_and_begins_anew(users: Any) -> None:
    for _ in range(2):
        users.parts("INSERT INTO users (hash) VALUES (1), (1)")
        assert (ids(users), nodes_of_sequences(users)) == ([1, 2], 1)
        users.parts("DROP TABLE users")
        assert nodes_of_sequences(users) == 0
        users.parts(USERS)


def test_a_replaced_table_leaves_nothing(users: Any) -> None:
    users.parts("INSERT INTO users (hash) VALUES (1)")
    users.parts(USERS.replace("users", "others"))
    users.parts("INSERT INTO others (hash) VALUES (1)")
    users.run(users.schemes.rename([("/local/others", "/local/users", True)], users.now))
    assert nodes_of_sequences(users) == 1
    users.parts("INSERT INTO users (hash) VALUES (1)")
    assert ids(users) == [1, 2]
    users.parts(USERS.replace("CREATE", "CREATE OR REPLACE"))
    assert nodes_of_sequences(users) == 0


def test_a_draw_is_refused_with_the_table(users: Any) -> None:
    id = users.begin()
    users.within(id, "SELECT 1")
    users.parts("DROP TABLE users")
    with pytest.raises(Fault) as caught:
        users.parts("INSERT INTO users (hash) VALUES (1)", None, TransactionControl(id=id))
    assert caught.value.status == "SCHEME_ERROR"


def test_sequences_are_not_listed(users: Any) -> None:
    users.parts("INSERT INTO users (hash) VALUES (1)")
    found = users.run(users.schemes.children("/local"))
    assert [type(each).__name__ for each in found] == ["DirectoryEntry", "TableView"]
    assert users.run(users.schemes.children("/local/users")) == []
