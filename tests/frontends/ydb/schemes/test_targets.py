"""Tables in the admin API: their names, how their rows die, and how that is changed there."""

from __future__ import annotations

from typing import Any

import pytest

from mayflydb.admin.targets import TargetResolver
from mayflydb.engine.proposals import Change
from mayflydb.expiry.rules import without_stamps
from mayflydb.frontends.ydb.rows import RowLayout
from mayflydb.frontends.ydb.schemes.specs import AlterSpec, ColumnSpec, TableSpec, TtlSpec
from mayflydb.frontends.ydb.schemes.ttl import HIDE_ATTRIBUTE
from mayflydb.frontends.ydb.targets import YdbTargets
from mayflydb.model.errors import BadRequest, NotFound
from mayflydb.model.instant import SECOND
from mayflydb.model.record import Record
from mayflydb.query.yql.types import TIMESTAMP, UINT64, UTF8, OptionalType

COLUMNS = tuple(
    ColumnSpec(name, OptionalType(type))
    for name, type in {"id": UINT64, "s": UTF8, "at": TIMESTAMP, "n": UINT64}.items()
)


@pytest.fixture
def targets(place: Any) -> TargetResolver:
    for path, key, ttl in (
        ("/local/carts", ("id",), TtlSpec("at", 60)),
        ("/local/shop/eu/carts", ("id", "s"), None),
        ("/Root/a", ("s",), None),
    ):
        place.run(place.schemes.create(path, TableSpec(COLUMNS, key, ttl=ttl), place.now))
    place.run(place.schemes.create_view("/local/v", "SELECT 1", place.now))
    return TargetResolver(place.engine, [YdbTargets(("/local", "/Root"), lambda: place.schemes)])


def test_all_tables_have_targets(place: Any, targets: TargetResolver) -> None:
    assert [each.target for each in place.run(targets.list_containers())] == [
        "ydb:/Root/a",
        "ydb:/local/carts",
        "ydb:/local/shop/eu/carts",
    ]
    assert [target for target, _ in place.run(targets.list_databases())] == ["ydb:/Root", "ydb:/local"]


NAMED = [
    ("ydb:/local/carts", "/local", "carts"),
    ("ydb:local/carts", "/local", "carts"),
    ("ydb:/local//shop/eu/carts", "/local", "shop/eu/carts"),
    ("ydb:/Root/a", "/Root", "a"),
]


@pytest.mark.parametrize(("target", "database", "name"), NAMED)
def test_targets_name_tables(place: Any, targets: TargetResolver, target: str, database: str, name: str) -> None:
    found = place.run(targets.resolve_container(target))
    assert (found.database, found.node.name) == (database, name)
    assert not targets.is_database(target)
    assert targets.is_database(f"ydb:{database}")


@pytest.mark.parametrize("target", ["ydb:/local/none", "ydb:/else/t"])
def test_targets_that_are_not_there(place: Any, targets: TargetResolver, target: str) -> None:
    with pytest.raises(NotFound):
        place.run(targets.resolve_container(target))


@pytest.mark.parametrize("target", ["ydb:", "ydb:/", "ydb://"])
def test_what_is_no_target(place: Any, targets: TargetResolver, target: str) -> None:
    with pytest.raises(BadRequest):
        place.run(targets.resolve_container(target))


def record(place: Any, path: str, values: list[Any]) -> Record:
    layout = RowLayout(place.run(place.schemes.get_table(path)))
    key = layout.key_of(values)
    return Record(b"", key, layout.encode(values), place.now, None, None, 1, 1)


KEYS = [
    ("ydb:/local/carts", [7, None, None, None], "7"),
    ("ydb:/local/carts", [None, None, None, None], "[null]"),
    ("ydb:/local/shop/eu/carts", [7, "x", None, None], '["7","x"]'),
    ("ydb:/local/shop/eu/carts", [7, None, None, None], '["7",null]'),
    ("ydb:/Root/a", [None, "a b", None, None], "a b"),
]


@pytest.mark.parametrize(("target", "values", "text"), KEYS)
def test_keys_are_told_and_found(
    place: Any, targets: TargetResolver, target: str, values: list[Any], text: str
) -> None:
    found = place.run(targets.resolve_container(target))
    row = record(place, target.removeprefix("ydb:"), values)
    assert found.front_end.decode_identity(found.node, row.partition, row.key) == (text, None)
    assert row.key in [key for _, key in found.front_end.find_identities(found.node, text, None)]


@pytest.mark.parametrize(("target", "text"), [("ydb:/local/carts", "x"), ("ydb:/local/shop/eu/carts", "7")])
def test_what_is_no_key(place: Any, targets: TargetResolver, target: str, text: str) -> None:
    found = place.run(targets.resolve_container(target))
    with pytest.raises(BadRequest):
        found.front_end.find_identities(found.node, text, None)


def test_how_rows_die(place: Any, targets: TargetResolver) -> None:
    found = place.run(targets.resolve_container("ydb:/local/carts"))
    front_end = found.front_end
    assert front_end.ttl_settings("/local", found.node)["indexes"] == [
        {"name": "at", "field": "at", "expire_after_seconds": 60, "counts_from": "a date"}
    ]
    assert list(front_end.index_names(found.node).values()) == ["at"]
    told = front_end.describe_record("/local", found.node, record(place, "/local/carts", [1, None, 5 * SECOND, None]))
    assert told["dates"] == [{"index": "at", "date": "1970-01-01T00:00:05Z"}]
    told = front_end.describe_record("/local", found.node, record(place, "/local/carts", [1, None, None, None]))
    assert told["dates"] == [{"index": "at", "date": None, "reason": "no-anchor", "text": "at is NULL"}]


CHANGES = [
    (Change(5), ("at", 5, None)),
    (Change(5, field="at"), ("at", 5, None)),
    (Change(5, index="n"), ("n", 5, "SECONDS")),
    (Change(5, field="n", unit="NANOSECONDS"), ("n", 5, "NANOSECONDS")),
    (Change(None), None),
    (Change(None, field="n"), ("at", 60, None)),
]


@pytest.mark.parametrize(("change", "after"), CHANGES)
def test_ttl_is_changed(
    place: Any, targets: TargetResolver, change: Change, after: tuple[str, int, str] | None
) -> None:
    found = place.run(targets.resolve_container("ydb:/local/carts"))
    place.run(found.front_end.apply_change(found.database, found.node, change))
    ttl = place.run(place.schemes.get_table("/local/carts")).body.ttl
    assert (None if ttl is None else (ttl.column, ttl.expire_after, ttl.unit)) == after


@pytest.mark.parametrize("hides", [False, True])
@pytest.mark.parametrize("change", [change for change, _ in CHANGES if change.seconds is not None])
def test_a_proposal_has_the_rule_that_the_change_makes(
    place: Any, targets: TargetResolver, change: Change, hides: bool
) -> None:
    if hides:
        place.run(place.schemes.alter("/local/carts", AlterSpec(attributes={HIDE_ATTRIBUTE: "true"}), place.now))
    found = place.run(targets.resolve_container("ydb:/local/carts"))
    proposal = found.front_end.propose(found.database, found.node, change)
    place.run(found.front_end.apply_change(found.database, found.node, change))
    made = place.run(place.schemes.get_table("/local/carts")).node.definition.rules
    assert [without_stamps(rule) for rule in made] == list(proposal.rules)
    assert [rule.hides for rule in made] == [hides]


def test_a_proposal_knows_dates_that_are_not_there_yet(place: Any, targets: TargetResolver) -> None:
    found = place.run(targets.resolve_container("ydb:/local/carts"))
    proposal = found.front_end.propose(found.database, found.node, Change(5, field="n"))
    assert proposal.dated is not None
    assert [date for _, date in proposal.dated(record(place, "/local/carts", [1, None, None, 9])).dates] == [9 * SECOND]
    assert found.front_end.propose(found.database, found.node, Change(5)).current == 60
    # In another unit the same values are other dates.
    proposal = found.front_end.propose(found.database, found.node, Change(5, field="n", unit="MILLISECONDS"))
    assert proposal.dated is not None
    assert [date for _, date in proposal.dated(record(place, "/local/carts", [1, None, None, 9])).dates] == [9_000]


REFUSED = [
    (Change(-1), BadRequest),
    (Change(5, field="s"), BadRequest),
    (Change(5, field="x"), NotFound),
    (Change(5, unit="SECONDS"), BadRequest),
    (Change(5, field="n", unit="WEEKS"), BadRequest),
]


@pytest.mark.parametrize(("change", "error"), REFUSED)
def test_what_cannot_be(place: Any, targets: TargetResolver, change: Change, error: type[Exception]) -> None:
    found = place.run(targets.resolve_container("ydb:/local/carts"))
    with pytest.raises(error):
        found.front_end.propose(found.database, found.node, change)
