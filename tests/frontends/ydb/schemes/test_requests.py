"""Requests that change the scheme, and what is described: as messages, without a server."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mayflydb.frontends.ydb.calls import GrpcCall
from mayflydb.frontends.ydb.commands import directories, schemes
from mayflydb.frontends.ydb.descriptors import message
from mayflydb.frontends.ydb.schemes.describing import describe_table
from mayflydb.frontends.ydb.schemes.showing import show_table
from mayflydb.query.yql.faults import Fault

TABLE = "Ydb.Table."


def handled(place: Any, handler: Any, request: Any) -> Any:
    """The bytes that answer a request; its handler asks for schemes alone."""
    services = SimpleNamespace(schemes=place.schemes)
    return place.run(handler(services, GrpcCall("/local", place.now), request))


def answered(place: Any, handler: Any, request: Any) -> Any:
    """The operation that answers."""
    response = message("Ydb.Table.CreateTableResponse").FromString(handled(place, handler, request))
    assert response.operation.ready
    assert response.operation.status == 400000
    return response.operation


def create_request(**more: Any) -> Any:
    request = message(TABLE + "CreateTableRequest")(path="t", primary_key=["id"])
    for name, number in {"id": 4, "at": 0x32, "n": 2, "s": 0x1200}.items():
        column = request.columns.add(name=name)
        column.type.optional_type.item.type_id = number
    for name, value in more.items():
        getattr(request, name).CopyFrom(value) if hasattr(value, "DESCRIPTOR") else setattr(request, name, value)
    return request


def refused(place: Any, handler: Any, request: Any) -> tuple[str, str]:
    with pytest.raises(Fault) as caught:
        handled(place, handler, request)
    return caught.value.status, caught.value.message


def ttl(**fields: Any) -> Any:
    return message(TABLE + "TtlSettings")(**fields)


def date(column: str, seconds: int = 0, **more: Any) -> Any:
    return ttl(date_type_column={"column_name": column, "expire_after_seconds": seconds}, **more)


def count(column: str, unit: int, seconds: int = 0) -> Any:
    mode = {"column_name": column, "column_unit": unit, "expire_after_seconds": seconds}
    return ttl(value_since_unix_epoch=mode)


DATE_MODE = "To enable TTL on date type column 'DateTypeColumnModeSettings' should be specified"
COUNT_MODE = "To enable TTL on integral type column 'ValueSinceUnixEpochModeSettings' should be specified"
TTL_REFUSED = [
    (ttl(), "BAD_REQUEST", "BAD_REQUEST", "TTL mode is undefined"),
    (count("n", 0), "UNSUPPORTED", "UNSUPPORTED", "Unsupported unit: 0"),
    (count("n", 7), "UNSUPPORTED", "UNSUPPORTED", "Unsupported unit: 7"),
    (date("x"), "SCHEME_ERROR", "BAD_REQUEST", "Cannot enable TTL on unknown column: 'x'"),
    (count("at", 1), "SCHEME_ERROR", "BAD_REQUEST", DATE_MODE),
    (date("n"), "SCHEME_ERROR", "BAD_REQUEST", COUNT_MODE),
    (date("s"), "SCHEME_ERROR", "BAD_REQUEST", "Unsupported column type"),
    (
        date("at", 0, run_interval_seconds=899),
        "SCHEME_ERROR",
        "BAD_REQUEST",
        "TTL run interval cannot be less than limit: 900",
    ),
]


@pytest.mark.parametrize(("settings", "create", "alter", "text"), TTL_REFUSED)
def test_ttl_that_cannot_be(place: Any, settings: Any, create: str, alter: str, text: str) -> None:
    assert refused(place, schemes.create_table, create_request(ttl_settings=settings)) == (create, text)
    answered(place, schemes.create_table, create_request())
    change = message(TABLE + "AlterTableRequest")(path="t", set_ttl_settings=settings)
    assert refused(place, schemes.alter_table, change) == (alter, text)


DESCRIBED = [
    date("at"),
    date("at", 3600),
    date("at", 3600, run_interval_seconds=900),
    *(count("n", unit, 60) for unit in (1, 2, 3, 4)),
]


@pytest.mark.parametrize("settings", DESCRIBED)
def test_ttl_reads_back_as_it_was_set(place: Any, settings: Any) -> None:
    answered(place, schemes.create_table, create_request(ttl_settings=settings))
    assert describe_table(place.run(place.schemes.get_table("/local/t"))).ttl_settings == settings
    answered(place, schemes.alter_table, message(TABLE + "AlterTableRequest")(path="t", drop_ttl_settings={}))
    assert not describe_table(place.run(place.schemes.get_table("/local/t"))).HasField("ttl_settings")
    answered(place, schemes.alter_table, message(TABLE + "AlterTableRequest")(path="t", set_ttl_settings=settings))
    assert describe_table(place.run(place.schemes.get_table("/local/t"))).ttl_settings == settings


PROFILES: list[tuple[dict[str, Any], dict[str, Any], int, int]] = [
    ({"uniform_partitions": 4}, {}, 4, 1),
    ({"uniform_partitions": 4, "auto_partitioning": 1}, {}, 4, 2),
    ({"auto_partitioning": 2}, {}, 1, 1),
    ({"uniform_partitions": 4}, {"uniform_partitions": 8}, 8, 1),
    (
        {"explicit_partitions": {"split_points": [{"type": {"type_id": 4}, "value": {"uint64_value": 9}}]}},
        {},
        2,
        1,
    ),
]


@pytest.mark.parametrize(("policy", "beside", "count", "by_size"), PROFILES)
def test_profiles_say_how_tables_are_cut(
    place: Any, policy: dict[str, Any], beside: dict[str, Any], count: int, by_size: int
) -> None:
    request = create_request(**beside)
    request.profile.partitioning_policy.MergeFrom(message(TABLE + "PartitioningPolicy")(**policy))
    answered(place, schemes.create_table, request)
    settings = describe_table(place.run(place.schemes.get_table("/local/t"))).partitioning_settings
    assert (settings.min_partitions_count, settings.partitioning_by_size) == (count, by_size)


@pytest.mark.parametrize(
    ("column", "literal"),
    [
        # A type without texts, and one whose texts are made of other values.
        ({"empty_list_type": 0}, {"type": {"empty_dict_type": 0}}),
        ({"type_id": 0x31}, {"type": {"type_id": 0x1200}, "value": {"text_value": "x"}}),
    ],
)
def test_a_default_of_another_type_is_refused(place: Any, column: Any, literal: Any) -> None:
    request = create_request()
    request.columns.add(name="odd", type=column, from_literal=literal)
    status, text = refused(place, schemes.create_table, request)
    assert status == "BAD_REQUEST" and text.startswith("Default of column 'odd' does not fit its type ")


def test_what_was_asked_for_is_described(place: Any) -> None:
    request = create_request(uniform_partitions=4, key_bloom_filter=1, store_type=2)
    request.columns[0].not_null = True
    request.columns[2].from_literal.type.type_id = 1
    request.columns[2].from_literal.value.int32_value = 7
    request.indexes.add(name="i", index_columns=["n"], data_columns=["s"], global_index={})
    request.indexes.add(name="u", index_columns=["s"], global_unique_index={})
    request.indexes.add(name="a", index_columns=["at"], global_async_index={})
    request.attributes["k"] = "v"
    request.column_families.add(name="cold", compression=2).data.media = "ssd"
    request.columns[3].family = "cold"
    request.partitioning_settings.partitioning_by_size = 2
    request.partitioning_settings.min_partitions_count = 4
    request.read_replicas_settings.any_az_read_replicas_count = 3
    answered(place, schemes.create_table, request)
    told = describe_table(place.run(place.schemes.get_table("/local/t")))
    assert told.self.name == "t"
    assert told.self.type == 13
    assert [(each.name, each.not_null, each.family) for each in told.columns] == [
        ("id", True, ""),
        ("at", False, ""),
        ("n", False, ""),
        ("s", False, "cold"),
    ]
    assert told.columns[0].type.type_id == 4
    assert told.columns[1].type.optional_type.item.type_id == 0x32
    assert told.columns[2].from_literal.value.uint32_value == 7
    assert [(each.name, each.WhichOneof("type"), each.status) for each in told.indexes] == [
        ("i", "global_index", 1),
        ("u", "global_unique_index", 1),
        ("a", "global_async_index", 1),
    ]
    assert list(told.indexes[0].data_columns) == ["s"]
    assert dict(told.attributes) == {"k": "v"}
    assert [(each.name, each.data.media, each.compression) for each in told.column_families] == [
        ("default", "", 1),
        ("cold", "ssd", 2),
    ]
    assert (told.partitioning_settings.partitioning_by_size, told.partitioning_settings.min_partitions_count) == (2, 4)
    assert (told.key_bloom_filter, told.read_replicas_settings.any_az_read_replicas_count) == (1, 3)
    assert told.store_type == 2


def test_families_that_only_columns_name_are_made(place: Any) -> None:
    request = create_request()
    request.columns[3].family = "cold"
    answered(place, schemes.create_table, request)
    change = message(TABLE + "AlterTableRequest")(path="t")
    change.add_columns.add(name="x", type={"optional_type": {"item": {"type_id": 1}}}, family="warm")
    change.add_columns.add(name="y", type={"optional_type": {"item": {"type_id": 1}}}, family="cold")
    answered(place, schemes.alter_table, change)
    told = describe_table(place.run(place.schemes.get_table("/local/t")))
    assert [each.name for each in told.column_families] == ["default", "cold", "warm"]
    assert [each.family for each in told.columns[3:]] == ["cold", "warm", "cold"]


def test_storage_is_described_as_it_was_asked_for(place: Any) -> None:
    request = create_request()
    request.storage_settings.tablet_commit_log0.media = "ssd"
    request.partitioning_settings.partition_by.append("id")
    answered(place, schemes.create_table, request)
    change = message(TABLE + "AlterTableRequest")(path="t")
    change.alter_storage_settings.external.media = "hdd"
    answered(place, schemes.alter_table, change)
    view = place.run(place.schemes.get_table("/local/t"))
    told = describe_table(view)
    pools = told.storage_settings
    assert (pools.tablet_commit_log0.media, pools.external.media, pools.store_external_blobs) == ("ssd", "hdd", 2)
    assert not pools.HasField("tablet_commit_log1")
    assert not told.partitioning_settings.partition_by
    assert not any(each.HasField("not_null") for each in told.columns)
    assert "ssd" not in show_table(view, "t")


def test_a_change_may_be_of_everything_at_once(place: Any) -> None:
    answered(place, schemes.create_table, create_request(ttl_settings=date("at", 60)))
    change = message(TABLE + "AlterTableRequest")(path="/local/t", drop_columns=["s"], drop_ttl_settings={})
    change.add_columns.add(name="later").type.optional_type.item.type_id = 0x31
    change.add_indexes.add(name="i", index_columns=["later"])
    change.alter_attributes["k"] = "v"
    change.alter_partitioning_settings.partitioning_by_load = 1
    change.set_ttl_settings.CopyFrom(date("later", 5))
    answered(place, schemes.alter_table, change)
    told = describe_table(place.run(place.schemes.get_table("/local/t")))
    assert [each.name for each in told.columns] == ["id", "at", "n", "later"]
    assert told.ttl_settings == date("later", 5)
    assert (told.indexes[0].status, told.partitioning_settings.partitioning_by_load) == (1, 1)


def test_the_last_ttl_action_counts(place: Any) -> None:
    answered(place, schemes.create_table, create_request(ttl_settings=date("at", 60)))
    one = message(TABLE + "AlterTableRequest")(path="t", set_ttl_settings=date("at", 5)).SerializeToString()
    other = message(TABLE + "AlterTableRequest")(drop_ttl_settings={}).SerializeToString()
    request = message(TABLE + "AlterTableRequest").FromString(one + other)
    answered(place, schemes.alter_table, request)
    assert place.run(place.schemes.get_table("/local/t")).body.ttl is None


def test_names_that_are_taken_are_accepted_with_a_notice(place: Any) -> None:
    answered(place, schemes.create_table, create_request())
    operation = answered(place, schemes.create_table, create_request())
    assert operation.issues[0].message.endswith(" path exist, request accepts it")
    directory = message("Ydb.Scheme.MakeDirectoryRequest")(path="/local/d")
    assert not answered(place, directories.make_directory, directory).issues
    operation = answered(place, directories.make_directory, directory)
    assert operation.issues[0].message.endswith(" path exist, request accepts it")


def listed(place: Any, path: str) -> list[tuple[str, int]]:
    operation = answered(place, directories.list_directory, message("Ydb.Scheme.ListDirectoryRequest")(path=path))
    result = message("Ydb.Scheme.ListDirectoryResult")()
    assert operation.result.Unpack(result)
    return [(each.name, each.type) for each in result.children]


def test_lists(place: Any) -> None:
    request = create_request()
    request.path = "d/t"
    answered(place, schemes.create_table, request)
    place.run(place.schemes.create_view("/local/v", "SELECT 1", place.now))
    assert listed(place, "/") == [("local", 4), ("Root", 4)]
    assert listed(place, "/local") == [(".sys", 1), ("d", 1), ("v", 20)]
    assert listed(place, "d") == [("t", 2)]
    assert listed(place, "/local/.sys") == [("nodes", 24), ("partition_stats", 24)]
    assert listed(place, "/local/d/t") == []


OPTIONS = [
    (schemes.describe_options, "DescribeTableOptionsRequest", {}),
    (schemes.describe_system_view, "DescribeSystemViewRequest", {"path": ".sys/partition_stats"}),
    (schemes.describe_system_view, "DescribeSystemViewRequest", {"path": ".sys/nodes"}),
    (schemes.describe_table_request, "DescribeTableRequest", {"path": ".sys/partition_stats"}),
]


@pytest.mark.parametrize(("handler", "name", "fields"), OPTIONS, ids=range(len(OPTIONS)))
def test_what_is_told_of_the_system(place: Any, handler: Any, name: str, fields: dict[str, Any]) -> None:
    answered(place, handler, message(TABLE + name)(**fields))


def test_what_is_no_table_has_no_columns(place: Any) -> None:
    place.run(place.schemes.create_view("/local/d/v", "SELECT 1", place.now))
    for path, name, kind in [("/local", "/local", 4), ("d", "d", 1), ("d/v", "v", 20)]:
        told = answered(place, schemes.describe_table_request, message(TABLE + "DescribeTableRequest")(path=path))
        result = message(TABLE + "DescribeTableResult").FromString(told.result.value)
        assert (result.self.name, result.self.type, list(result.columns)) == (name, kind, [])


def test_system_views_are_numbered(place: Any) -> None:
    for name, id, key in [("partition_stats", 1, "OwnerId"), ("nodes", 2, "NodeId")]:
        request = message(TABLE + "DescribeSystemViewRequest")(path=f".sys/{name}")
        told = answered(place, schemes.describe_system_view, request)
        result = message(TABLE + "DescribeSystemViewResult").FromString(told.result.value)
        assert (result.sys_view_id, result.sys_view_name, result.primary_key[0]) == (id, name, key)


MISSING = [
    (schemes.drop_table, "Ydb.Table.DropTableRequest", {"path": "none"}),
    (schemes.alter_table, "Ydb.Table.AlterTableRequest", {"path": "none"}),
    (schemes.describe_table_request, "Ydb.Table.DescribeTableRequest", {"path": "none"}),
    (schemes.copy_table, "Ydb.Table.CopyTableRequest", {"source_path": "none", "destination_path": "x"}),
    (directories.describe_path, "Ydb.Scheme.DescribePathRequest", {"path": "none"}),
    (directories.list_directory, "Ydb.Scheme.ListDirectoryRequest", {"path": "none"}),
    (directories.remove_directory, "Ydb.Scheme.RemoveDirectoryRequest", {"path": "none"}),
    (directories.modify_permissions, "Ydb.Scheme.ModifyPermissionsRequest", {"path": "none"}),
    (directories.describe_path, "Ydb.Scheme.DescribePathRequest", {"path": "/elsewhere/t"}),
]


@pytest.mark.parametrize(("handler", "name", "fields"), MISSING)
def test_paths_that_lead_nowhere(place: Any, handler: Any, name: str, fields: dict[str, Any]) -> None:
    looks = "Describe" in name or "List" in name
    text = "Path not found" if looks else "Path does not exist"
    assert refused(place, handler, message(name)(**fields)) == ("SCHEME_ERROR", text)
