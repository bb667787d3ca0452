"""The statements that Django's `migrate` and a small application send through django-ydb-backend 0.0.1b7, statement by statement.

The backend itself needs a ydb-dbapi older than the one that is tested here. Its statements are those of Django 5.2's
`contenttypes`, `auth`, `admin` and `sessions`, and of two models with an AutoField and a BigAutoField.
"""

from __future__ import annotations

from typing import Any

import pytest

ydb: Any = pytest.importorskip("ydb")

MIGRATE = """
CREATE TABLE `django_migrations` (`id` BigSerial NOT NULL, `app` Utf8 NOT NULL, `name` Utf8 NOT NULL,
`applied` Timestamp64 NOT NULL, PRIMARY KEY (`id`));
CREATE TABLE `django_content_type` (`id` Serial NOT NULL, `name` Utf8 NOT NULL, `app_label` Utf8 NOT NULL,
`model` Utf8 NOT NULL, PRIMARY KEY (`id`));
CREATE TABLE `auth_permission` (`id` Serial NOT NULL, `name` Utf8 NOT NULL, `content_type_id` Int32 NOT NULL,
`codename` Utf8 NOT NULL, PRIMARY KEY (`id`));
ALTER TABLE `auth_permission` ADD INDEX `auth_permission_content_type_id_2f476e4b` GLOBAL ON (`content_type_id`);
CREATE TABLE `auth_user` (`id` Serial NOT NULL, `password` Utf8 NOT NULL, `last_login` Timestamp64 NOT NULL,
`is_superuser` Bool NOT NULL, `username` Utf8 NOT NULL, `date_joined` Timestamp64 NOT NULL, PRIMARY KEY (`id`));
CREATE TABLE `django_admin_log` (`id` Serial NOT NULL, `action_time` Timestamp64 NOT NULL,
`object_id` Optional<Utf8>, `action_flag` Uint16 NOT NULL, `content_type_id` Optional<Int32>,
`user_id` Int32 NOT NULL, PRIMARY KEY (`id`));
ALTER TABLE `django_content_type` ALTER COLUMN `name` DROP NOT NULL;
ALTER TABLE `django_content_type` DROP COLUMN `name`;
ALTER TABLE `auth_user` ALTER COLUMN `last_login` DROP NOT NULL;
CREATE TABLE `django_session` (`session_key` Utf8 NOT NULL, `session_data` Utf8 NOT NULL,
`expire_date` Timestamp64 NOT NULL, PRIMARY KEY (`session_key`));
ALTER TABLE `django_session` ADD INDEX `django_session_expire_date_a5c62663` GLOBAL ON (`expire_date`);
CREATE TABLE `shop_small` (`id` Serial NOT NULL, `name` Utf8 NOT NULL, PRIMARY KEY (`id`));
CREATE TABLE `shop_big` (`id` BigSerial NOT NULL, `name` Utf8 NOT NULL, `at` Optional<Timestamp64>,
`small_id` Optional<Int32>, PRIMARY KEY (`id`));
ALTER TABLE `shop_big` ADD INDEX `shop_big_small_id_5e89c0ee` GLOBAL ON (`small_id`);
"""

UTF8, INT32 = ydb.PrimitiveType.Utf8, ydb.PrimitiveType.Int32
TIMESTAMP64 = ydb.PrimitiveType.Timestamp64


def listed(rows: list[dict[str, Any]], **members: Any) -> Any:
    """Rows as the parameter that the backend makes of them."""
    struct = ydb.StructType()
    for name, type in members.items():
        struct.add_member(name, type)
    return rows, ydb.ListType(struct)


def test_migrate_and_a_small_application(query_pool: Any) -> None:
    for text in MIGRATE.strip().split(";\n"):
        query_pool.execute_with_retries(text)

    def rows(text: str, parameters: dict[str, Any] | None = None) -> list[tuple[Any, ...]]:
        (found,) = query_pool.execute_with_retries(text, parameters)
        return [tuple(row.values()) for row in found.rows]

    small = (
        "DECLARE $in_ as List<Struct<`name`: Utf8>>; INSERT INTO `shop_small` (`name`) SELECT `name` FROM AS_TABLE($in_) "
        "RETURNING `id`;"
    )
    for number, name in enumerate("ab", 1):
        assert rows(small, {"$in_": listed([{"name": name}], name=UTF8)}) == [(number,)]
    big = (
        "DECLARE $in_ as List<Struct<`name`: Utf8, `small_id`: Optional<Int32>, `at`: Optional<Timestamp64>>>; "
        "INSERT INTO `shop_big` (`name`, `small_id`, `at`) SELECT `name`, `small_id`, `at` FROM AS_TABLE($in_) "
        "RETURNING `id`;"
    )
    members = {"name": UTF8, "small_id": ydb.OptionalType(INT32), "at": ydb.OptionalType(TIMESTAMP64)}
    first = [{"name": "c", "small_id": 1, "at": None}]
    assert rows(big, {"$in_": listed(first, **members)}) == [(1,)]
    more = [{"name": name, "small_id": None, "at": None} for name in "de"]
    assert rows(big, {"$in_": listed(more, **members)}) == [(2,), (3,)]
    count = "SELECT COUNT(*) AS `__count` FROM `shop_big` WHERE `shop_big`.`small_id` = $element_1"
    assert rows(count, {"$element_1": (1, INT32)}) == [(1,)]
    named = "SELECT `shop_big`.`id` AS `id`, `shop_big`.`name` AS `name` FROM `shop_big` ORDER BY `shop_big`.`id` ASC"
    assert rows(named) == [(1, "c"), (2, "d"), (3, "e")]
    update = "UPDATE `shop_small` SET `name` = $element_1 WHERE `shop_small`.`id` = $element_2 RETURNING `id`"
    assert rows(update, {"$element_1": ("z", UTF8), "$element_2": (1, INT32)}) == [(1,)]
    one = (
        "SELECT `shop_small`.`id`, `shop_small`.`name` FROM `shop_small` WHERE `shop_small`.`id` = $element_1 LIMIT 21"
    )
    assert rows(one, {"$element_1": (1, INT32)}) == [(1, "z")]
