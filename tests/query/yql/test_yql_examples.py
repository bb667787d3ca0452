"""Whole scripts as applications send them: each is parsed, printed, and parsed again to the same tree."""

from __future__ import annotations

import pytest

from mayflydb.query.yql.parser import parse
from query.yql.printing import write

EXAMPLES = {
    "point read": "DECLARE $id AS Uint64; SELECT id, title, price FROM `shop/goods` WHERE id = $id;",
    "upsert of parameters": """
        DECLARE $id AS Uint64; DECLARE $title AS Utf8; DECLARE $at AS Timestamp?;
        UPSERT INTO goods (id, title, added_at) VALUES ($id, $title, $at);
    """,
    "rows from a list": """
        PRAGMA TablePathPrefix("/local/shop");
        DECLARE $rows AS List<Struct<id: Uint64, title: Utf8, price: Decimal(22, 9), tags: Json?>>;
        REPLACE INTO goods SELECT id, title, price, tags FROM AS_TABLE($rows);
    """,
    "next page": """
        DECLARE $limit AS Uint64; DECLARE $city AS Utf8; DECLARE $number AS Uint32;
        $part1 = (SELECT * FROM schools WHERE city = $city AND number > $number ORDER BY city, number LIMIT $limit);
        $part2 = (SELECT * FROM schools WHERE city > $city ORDER BY city, number LIMIT $limit);
        $both = (SELECT * FROM $part1 UNION ALL SELECT * FROM $part2);
        SELECT * FROM $both ORDER BY city, number LIMIT $limit;
    """,
    "tuples compared": "SELECT * FROM schools WHERE (city, number) > ($city, $number) ORDER BY city, number LIMIT 100;",
    "expired rows": """
        DECLARE $now AS Timestamp;
        DELETE FROM sessions WHERE touched_at < $now - Interval("PT30M") RETURNING id, user_id;
    """,
    "only rows that live": 'SELECT * FROM sessions WHERE created_at > CurrentUtcTimestamp() - Interval("P1D");',
    "TTL in seconds": """
        CREATE TABLE tokens (id Utf8 NOT NULL, dies Uint32, PRIMARY KEY (id))
        WITH (TTL = Interval("PT0S") ON dies AS SECONDS);
    """,
    "TTL later": 'ALTER TABLE `tokens` SET (TTL = Interval("P7D") DELETE ON `dies` AS MILLISECONDS);',
    "TTL off, column off": "ALTER TABLE tokens RESET (TTL); ALTER TABLE tokens DROP COLUMN dies;",
    "read by index": """
        SELECT o.id, o.total FROM orders VIEW by_customer AS o
        INNER JOIN customers AS c ON c.id = o.customer_id WHERE c.mail = "a@example.org"u;
    """,
    "index ddl": """
        ALTER TABLE orders ADD INDEX by_day GLOBAL ASYNC ON (day, customer_id) COVER (total),
            RENAME INDEX by_customer TO by_client;
        ALTER TABLE orders DROP INDEX by_day;
    """,
    "many kinds of columns": """
        CREATE TABLE `all/kinds` (
            k BigSerial NOT NULL, b Bool DEFAULT FALSE, i Int8, u Uint16 NOT NULL DEFAULT 7, f Float, d Double,
            s String, t Text, y Yson, j JsonDocument, uu Uuid, dn DyNumber, dc Decimal(10, 2), da Date, dt Datetime64,
            ts Timestamp FAMILY cold, iv Interval,
            PRIMARY KEY (k, u),
            INDEX by_t GLOBAL UNIQUE ON (t) COVER (s, da),
            FAMILY default (DATA = "ssd"), FAMILY cold (DATA = "rot", COMPRESSION = "lz4")
        ) WITH (
            AUTO_PARTITIONING_BY_SIZE = ENABLED, AUTO_PARTITIONING_PARTITION_SIZE_MB = 512,
            AUTO_PARTITIONING_MIN_PARTITIONS_COUNT = 4, KEY_BLOOM_FILTER = DISABLED, READ_REPLICAS_SETTINGS = "PER_AZ:1"
        );
    """,
    "columnar": """
        CREATE TABLE events (at Timestamp NOT NULL, id Utf8 NOT NULL, body JsonDocument, PRIMARY KEY (at, id))
        PARTITION BY HASH (id) WITH (STORE = COLUMN, AUTO_PARTITIONING_MIN_PARTITIONS_COUNT = 16);
    """,
    "several results": "SELECT COUNT(*) FROM a; SELECT MAX(x) AS top FROM b; SELECT AsList(1, 2) AS l;",
    "report": """
        SELECT c.name AS name, COUNT(DISTINCT o.id) AS orders, SUM(o.total) ?? 0 AS total,
               MIN_BY(o.day, o.total) AS cheapest, AGGREGATE_LIST(o.id, 10) AS some
        FROM customers AS c LEFT JOIN orders AS o ON c.id = o.customer_id
        WHERE c.country IN ("de", "fr") AND NOT c.blocked
        GROUP BY c.name HAVING COUNT(*) > 1 ORDER BY total DESC, name LIMIT 20;
    """,
    "grouped by a month": """
        SELECT month, SUM(total) FROM orders
        GROUP BY DateTime::MakeDate(DateTime::StartOfMonth(day)) AS month ORDER BY month;
    """,
    "sessions": """
        SELECT user, session_start, COUNT(*) AS size FROM clicks
        GROUP BY user, SessionWindow(at, Interval("PT10M")) AS session_start;
    """,
    "subtotals": "SELECT a, b, GROUPING(a, b) AS level, SUM(x) FROM t GROUP BY ROLLUP(a, b) ORDER BY level;",
    "ranks": """
        SELECT id, ROW_NUMBER() OVER w AS place, LAG(total) OVER w AS before,
               SUM(total) OVER (PARTITION BY region ORDER BY day ROWS BETWEEN 6 PRECEDING AND CURRENT ROW) AS week
        FROM sales WINDOW w AS (PARTITION BY region ORDER BY total DESC);
    """,
    "unfolded": """
        $sample = AsList(AsStruct(AsList("a", "b") AS tags, 1u AS id), AsStruct(ListCreate(String) AS tags, 2u AS id));
        SELECT id, tag FROM AS_TABLE($sample) FLATTEN LIST BY tags AS tag;
    """,
    "lambdas": """
        $double = ($x) -> ($x * 2);
        $clamp = ($x, $top?) -> { $limit = $top ?? 100; RETURN IF($x > $limit, $limit, $x); };
        SELECT ListMap(ListFilter([1, 60, 3], ($x) -> ($x > 1)), $double) AS doubled, $clamp(500), $clamp(5, 3);
    """,
    "texts of times": """
        $format = DateTime::Format("%Y-%m-%d %H:%M:%S");
        SELECT $format(DateTime::FromSeconds(1700000000u)), DateTime::GetYear(CurrentUtcDate()),
               CAST("2030-01-02T03:04:05Z" AS Timestamp) + Interval("P1W") AS later;
    """,
    "hash of a key": "$id = Digest::CityHash($url); UPSERT INTO pages (id, url) VALUES ($id, $url);",
    "documents": """
        SELECT JSON_VALUE(body, "$.user.id" RETURNING Uint64 NULL ON EMPTY) AS user,
               JSON_QUERY(body, "$.items" WITH WRAPPER) AS items, JSON_EXISTS(body, "$.gift") AS gift
        FROM carts WHERE JSON_VALUE(body, '$.state') = "open";
    """,
    "yson": 'SELECT Yson::ConvertToString(Yson::YPath(doc, "/a/b", Yson::Options(false AS Strict))) FROM t;',
    "sql alchemy": "SELECT `t`.`id`, `t`.`v` FROM `t` WHERE `t`.`id` = $`id_1` AND `t`.`v` IN $`v_1`",
    "update from itself": "UPDATE goods SET price = price * 0.9, title = title || ' (sale)' WHERE stock > 10u;",
    "update on rows": "UPDATE goods ON SELECT id, price + 1 AS price FROM goods WHERE price < 5;",
    "delete on rows": "DELETE FROM goods ON SELECT id FROM goods VIEW by_maker WHERE maker = $m;",
    "insert with an answer": "INSERT INTO goods (id, title) VALUES (1, 'x'), (2, NULL) RETURNING *;",
    "in batches": "BATCH DELETE FROM log WHERE at < Date('2020-01-01');",
    "a view": """
        CREATE VIEW recent WITH (security_invoker = TRUE) AS
            SELECT id, title FROM goods WHERE added_at > CurrentUtcTimestamp() - Interval("P7D");
    """,
    "users": """
        CREATE USER reader PASSWORD "secret"; GRANT "ydb.generic.read" ON `/local/shop` TO reader;
        REVOKE ALL ON `/local/shop` FROM writer; DROP USER IF EXISTS writer;
    """,
    "actions": """
        DEFINE ACTION $greet($name, $end?) AS
            $text = "Hello, " || ($name ?? "world") || ($end ?? "!");
            SELECT $text
        END DEFINE;
        DO $greet(NULL); DO $greet("Ann", "?"); DO EMPTY_ACTION();
        EVALUATE IF 1 > 2 DO BEGIN SELECT 1; END DO ELSE DO $greet("x");
        EVALUATE FOR $i IN AsList(1, 2) DO BEGIN SELECT $i; END DO;
    """,
    "words as names": """
        SELECT key, value, timestamp, date, type, user, group, order, index, table, data, row, end, default, list
        FROM `table` AS `select` WHERE `select`.key != 1;
    """,
    "comments and raw texts": """
        --!syntax_v1
        -- a comment; with a semicolon
        SELECT /* and 'another' */ @@{"a": "it's \\n raw"}@@ AS j, "it's" AS no;
    """,
    "containers": """
        SELECT <|a: 1, b: (2, "c")|>.b.1, {"k": [1, 2]}["k"][0], {1, 2}, (1,), [], AsDict(("a", 1)),
               Variant(5, "x", Variant<x: Int32, y: String>), Nothing(Struct<a: Int32?>?), Just([Just(1)]);
    """,
    "numbers": "SELECT 1, 2u, 3ul, 4l, 5s, 6t, 7us, 8ut, 0xFFul, 0b11, 0o17, 1.5, 2.f, 3e-4f, -5, - -5, ~0u;",
    "sets of queries": """
        (SELECT id FROM a ORDER BY id LIMIT 5) UNION (SELECT id FROM b) EXCEPT SELECT id FROM c
        INTERSECT ALL SELECT id FROM d;
    """,
    "what is null": "SELECT * FROM t WHERE a IS NULL AND b IS NOT NULL OR c IS DISTINCT FROM d OR e IS NOT DISTINCT FROM NULL;",
    "patterns": r"SELECT a LIKE 'x!_%' ESCAPE '!', b NOT ILIKE '%y', c REGEXP '\\d+', d NOT MATCH '[a-z]*' FROM t;",
    "change feed": """
        ALTER TABLE t ADD CHANGEFEED updates WITH (
            FORMAT = "JSON", MODE = "NEW_AND_OLD_IMAGES", RETENTION_PERIOD = Interval("PT12H"), INITIAL_SCAN = TRUE
        );
    """,
    "temporary": "CREATE TEMPORARY TABLE tmp (a Int32, PRIMARY KEY (a)); DROP TABLE IF EXISTS tmp;",
    "as a query says": "CREATE TABLE copy (PRIMARY KEY (id)) WITH (STORE = ROW) AS SELECT id, title FROM goods;",
    "shown": "SHOW CREATE TABLE `shop/goods`; SHOW CREATE VIEW recent;",
    "end of a transaction": "UPSERT INTO t (a) VALUES (1); COMMIT; SELECT * FROM t; DISCARD SELECT 1;",
}


@pytest.mark.parametrize("text", EXAMPLES.values(), ids=list(EXAMPLES))
def test_example(text: str) -> None:
    script = parse(text)
    assert script.statements
    written = write(script)
    assert parse(written) == script
    assert write(parse(written)) == written
