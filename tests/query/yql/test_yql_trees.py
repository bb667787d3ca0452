"""Trees of texts, shown as printed text: complete, with parentheses only where they matter."""

from __future__ import annotations

import pytest

from mayflydb.query.yql.parser import parse, parse_type
from query.yql.printing import write, write_query, write_type

EXPRESSIONS = [
    # Precedence, loose to tight.
    ("a OR b AND c XOR d", "a OR b AND c XOR d"),
    ("(a OR b) AND c", "(a OR b) AND c"),
    ("a OR (b OR c)", "a OR (b OR c)"),
    ("((a OR b)) OR c", "a OR b OR c"),
    ("NOT a = b", "NOT a == b"),
    # Names of types in front of `<`, which would begin a type.
    ("(list) < a > b", "(list) < a > b"),
    ("`list` < a > b", "`list` < a > b"),
    ("1 + (Dict) < a", "(1 + Dict) < a"),
    ("a.list < $list < b", "a.`list` < $list < b"),
    ("NOT (a = b)", "NOT (a == b)"),
    ("a = b = c", "a == b == c"),
    ("a = (b = c)", "a == (b == c)"),
    ("(a = b) IS NULL", "(a == b) IS NULL"),
    ("a <> b AND c != d AND e == f", "a != b AND c != d AND e == f"),
    ("a < b = c > d", "a < b == c > d"),
    ("a < (b = c)", "a < (b == c)"),
    ("a <= b >> c", "a <= b >> c"),
    ("a > b", "a > b"),
    ("a >> b >>| c << d |<< e", "a >> b >>| c << d |<< e"),
    ("a & b | c ^ d", "a & b | c ^ d"),
    ("a ?? b ?? c", "a ?? b ?? c"),
    ("(a ?? b) ?? c", "(a ?? b) ?? c"),
    ("a | b ?? c | d", "(a | b) ?? c | d"),
    ("(a ?? b) | c", "(a ?? b) | c"),
    ("a + b ?? c - d", "a + b ?? c - d"),
    ("a - b - c", "a - b - c"),
    ("a - (b - c)", "a - (b - c)"),
    ("a + b * c % d / e", "a + b * c % d / e"),
    ("a * b || c", "a * b || c"),
    ("-a || b", "-a || b"),
    ("-(a + b)", "-(a + b)"),
    ("- -1", "-(-1)"),
    ("~a + +b", "~a + +b"),
    ("-a.b[0]", "-a.b[0]"),
    # Conditions.
    ("a IS NULL", "a IS NULL"),
    ("a ISNULL OR b NOTNULL OR c NOT NULL", "a IS NULL OR b IS NOT NULL OR c IS NOT NULL"),
    ("a IS NOT DISTINCT FROM b", "a IS NOT DISTINCT FROM b"),
    ("a LIKE 'x%'", 'a LIKE "x%"'),
    ("a NOT ILIKE b ESCAPE '!'", 'a NOT ILIKE b ESCAPE "!"'),
    ("a REGEXP b OR c MATCH d OR e RLIKE f OR g GLOB h", "a REGEXP b OR c MATCH d OR e RLIKE f OR g GLOB h"),
    ("a BETWEEN 1 AND 2 AND b", "a BETWEEN 1 AND 2 AND b"),
    ("a NOT BETWEEN SYMMETRIC b + 1 AND c", "a NOT BETWEEN SYMMETRIC b + 1 AND c"),
    ("a BETWEEN ASYMMETRIC 1 AND 2", "a BETWEEN 1 AND 2"),
    ("a IN (1, 2)", "a IN (1, 2)"),
    ("a IN (1)", "a IN (1)"),
    ("a IN ()", "a IN ()"),
    ("a IN [1, 2]", "a IN (1, 2)"),
    ("a IN $list", "a IN $list"),
    ("a IN ($list)", "a IN ($list)"),
    ("a NOT IN COMPACT (SELECT b FROM t)", "a NOT IN COMPACT (SELECT b FROM t)"),
    ("(a, b) IN ((1, 2), (3, 4))", "(a, b) IN ((1, 2), (3, 4))"),
    ("a IN AsList(1, 2)", "a IN AsList(1, 2)"),
    ("a IN DictKeys($d)", "a IN DictKeys($d)"),
    ("EXISTS (SELECT 1)", "EXISTS (SELECT 1)"),
    ("CASE WHEN a THEN 1 WHEN b THEN 2 ELSE 3 END", "CASE WHEN a THEN 1 WHEN b THEN 2 ELSE 3 END"),
    ("CASE a + 1 WHEN 1 THEN 'x' ELSE NULL END", 'CASE a + 1 WHEN 1 THEN "x" ELSE NULL END'),
    ("if(a, b, c)", "if(a, b, c)"),
    # Literals.
    ("1", "1"),
    ("0xFFu", "255u"),
    ("0b101l", "5l"),
    ("0o17", "15"),
    ("7s + 7us + 7t + 7ut + 7ul", "7s + 7us + 7t + 7ut + 7ul"),
    ("18446744073709551615", "18446744073709551615"),
    ("1.5", "1.5"),
    ("1.", "1.0"),
    ("1e3", "1000.0"),
    ("2.5E-3f", "0.0025f"),
    ("'it\\'s'", '"it\'s"'),
    ('"\\x41\\101\\u0042\\U00000043\\n\\t\\\\"', '"AABC\\n\\t\\\\"'),
    ("'\\xff\\xfe'", '"\\xff\\xfe"'),
    ("'a'u || 'b'j || 'c'y || 'd's", '"a"u || "b"j || "c"y || "d"s'),
    ("@@raw \\n 'text'@@", "\"raw \\\\n 'text'\""),
    ("@@with @@@@ inside@@", '"with @@ inside"'),
    ("@@ends with @@@", '"ends with @"'),
    ("@@@@", '""'),
    ("true AND False AND null", "TRUE AND FALSE AND NULL"),
    ("[1, 2,]", "[1, 2]"),
    ("[]", "[]"),
    ("()", "()"),
    ("(1,)", "(1,)"),
    ("(1, 'a')", '(1, "a")'),
    ("(1)", "1"),
    ("(1 AS a, 2 AS b)", "<|a: 1, b: 2|>"),
    ("<|a: 1, 'b c': 2, `d`: 3|>", "<|a: 1, `b c`: 2, d: 3|>"),
    ("<||>", "<||>"),
    ("{1: 'a', 2: 'b'}", '{1: "a", 2: "b"}'),
    ("{1, 2}", "{1, 2}"),
    ("{}", "{}"),
    # Names, parameters, access.
    ("key + value + timestamp + date + table + type", "key + value + timestamp + date + table + type"),
    ("list < 3", "(list) < 3"),
    ("struct.a", "struct.a"),
    ("`a b` + `c\\`d` + `e``f`", "`a b` + `c\\`d` + `e\\`f`"),
    ("$p + $`q r` + $`s`", "$p + $`q r` + $s"),
    ("t.`a b`.c", "t.`a b`.c"),
    ("$t.0 + $t.1.2 + $t.1.a", "$t.0 + ($t.1).2 + ($t.1).a"),
    ("a[0]['x']", 'a[0]["x"]'),
    # Calls.
    ("COUNT(*)", "COUNT(*)"),
    ("COUNT(DISTINCT a)", "COUNT(DISTINCT a)"),
    ("SUM(ALL a)", "SUM(a)"),
    ("DateTime::Format('%Y')(now)", 'DateTime::Format("%Y")(now)'),
    ("DateTime::MakeDate", "DateTime::MakeDate"),
    ("AsStruct(1 AS a, 2 AS `b c`)", "AsStruct(1 AS a, 2 AS `b c`)"),
    ("$f($x, 1)", "$f($x, 1)"),
    ("Date('2030-01-02')", 'Date("2030-01-02")'),
    ("CAST(a AS Decimal(22, 9))", "CAST(a AS Decimal(22, 9))"),
    ("CAST(a AS List<String?>?)", "CAST(a AS Optional<List<Optional<String>>>)"),
    ("BITCAST(a AS Uint8)", "BITCAST(a AS Uint8)"),
    ("Nothing(Int32?)", "Nothing(Optional<Int32>)"),
    ("Nothing(Decimal(22,9)?)", "Nothing(Optional<Decimal(22, 9)>)"),
    ("Nothing(Int32??)", "Nothing(Optional<Optional<Int32>>)"),
    ("ListCreate(Struct<a:Int32>)", "ListCreate(Struct<a: Int32>)"),
    ("a ?? b", "a ?? b"),
    ("LAG(a, 1) IGNORE NULLS OVER w", "LAG(a, 1) IGNORE NULLS OVER w"),
    ("ROW_NUMBER() OVER (PARTITION BY a ORDER BY b DESC)", "ROW_NUMBER() OVER (PARTITION BY a ORDER BY b DESC)"),
    (
        "SUM(a) OVER (ORDER BY b ROWS 2 PRECEDING)",
        "SUM(a) OVER (ORDER BY b ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)",
    ),
    (
        "SUM(a) OVER (ROWS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING)",
        "SUM(a) OVER (ROWS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING)",
    ),
    (
        "SUM(a) OVER (ORDER BY b RANGE BETWEEN Interval('P1D') PRECEDING AND $x FOLLOWING)",
        'SUM(a) OVER (ORDER BY b RANGE BETWEEN (Interval("P1D")) PRECEDING AND ($x) FOLLOWING)',
    ),
    # Lambdas.
    ("ListMap($l, ($x) -> ($x + 1))", "ListMap($l, ($x) -> ($x + 1))"),
    ("($x, $y?) -> { $z = $x; RETURN $z; }", "($x, $y?) -> { $z = $x; RETURN $z; }"),
    ("() -> (1)", "() -> (1)"),
    ("(($x) -> ($x))(1)", "(($x) -> ($x))(1)"),
    # JSON.
    (
        "JSON_VALUE(a, '$.b' PASSING 1 AS x RETURNING Int64 DEFAULT 0 ON EMPTY ERROR ON ERROR)",
        'JSON_VALUE(a, "$.b" PASSING 1 AS x RETURNING Int64 DEFAULT 0 ON EMPTY ERROR ON ERROR)',
    ),
    ("JSON_EXISTS(a, '$.b' UNKNOWN ON ERROR)", 'JSON_EXISTS(a, "$.b" UNKNOWN ON ERROR)'),
    (
        "JSON_QUERY(a, '$.b' WITH CONDITIONAL ARRAY WRAPPER EMPTY OBJECT ON EMPTY)",
        'JSON_QUERY(a, "$.b" WITH CONDITIONAL WRAPPER EMPTY OBJECT ON EMPTY)',
    ),
]


@pytest.mark.parametrize(("text", "expected"), EXPRESSIONS, ids=[text for text, _ in EXPRESSIONS])
def test_expressions(text: str, expected: str) -> None:
    written = write(parse(f"$value = {text};"))
    assert written == f"$value = {expected};\n"
    assert parse(written) == parse(f"$value = {text}")


TYPES = [
    ("Uint64", "Uint64"),
    ("utf8?", "Optional<utf8>"),
    ("Optional<Int32>", "Optional<Int32>"),
    ("Decimal(22,9)", "Decimal(22, 9)"),
    ("List<Struct<'a':Uint64?,b:Decimal(35,10)>>", "List<Struct<a: Optional<Uint64>, b: Decimal(35, 10)>>"),
    ("Dict<Utf8,List<Int32>>??", "Optional<Optional<Dict<Utf8, List<Int32>>>>"),
    ("Tuple<Int32,String?>", "Tuple<Int32, Optional<String>>"),
    ("Tuple<>", "Tuple<>"),
    ("Struct<>", "Struct<>"),
    ("Set<Int32>", "Set<Int32>"),
    ("Variant<Int32,Utf8>", "Variant<Int32, Utf8>"),
    ("Variant<a:Int32,b:Utf8>", "Variant<a: Int32, b: Utf8>"),
    ("Enum<'a',b>", "Enum<a, b>"),
    ("Tagged<Int32,'t'>", "Tagged<Int32, t>"),
]


@pytest.mark.parametrize(("text", "expected"), TYPES, ids=[text for text, _ in TYPES])
def test_types(text: str, expected: str) -> None:
    assert write_type(parse_type(text)) == expected
    assert parse_type(expected) == parse_type(text)


QUERIES = [
    ("SELECT 1", "SELECT 1"),
    ("select a, b as c, d e from t", "SELECT a, b AS c, d AS e FROM t"),
    ("SELECT *, t.*, FROM t", "SELECT *, t.* FROM t"),
    ("FROM t SELECT a", "SELECT a FROM t"),
    ("SELECT DISTINCT a FROM t", "SELECT DISTINCT a FROM t"),
    ("SELECT * WITHOUT a, t.b FROM t", "SELECT * WITHOUT a, t.b FROM t"),
    ("SELECT * FROM `dir/sub/t` AS t", "SELECT * FROM `dir/sub/t` AS t"),
    ("SELECT * FROM t VIEW idx AS v WHERE a = 1", "SELECT * FROM t VIEW idx AS v WHERE a == 1"),
    ("SELECT * FROM t VIEW PRIMARY KEY", "SELECT * FROM t VIEW PRIMARY KEY"),
    ("SELECT * FROM db.`t`", "SELECT * FROM db.t"),
    ("SELECT * FROM t WITH INLINE", "SELECT * FROM t WITH (INLINE)"),
    ("SELECT * FROM $rows AS r", "SELECT * FROM $rows AS r"),
    ("SELECT * FROM as_table($l)", "SELECT * FROM AS_TABLE($l)"),
    ("SELECT * FROM (SELECT 1 AS a) AS x", "SELECT * FROM (SELECT 1 AS a) AS x"),
    ("SELECT * FROM (VALUES (1, 2)) AS x(a, b)", "SELECT * FROM (VALUES (1, 2)) AS x(a, b)"),
    (
        "SELECT * FROM a JOIN b USING (x, y) LEFT OUTER JOIN c ON a.x = c.x CROSS JOIN d",
        "SELECT * FROM a INNER JOIN b USING (x, y) LEFT JOIN c ON a.x == c.x CROSS JOIN d",
    ),
    (
        "SELECT * FROM a LEFT SEMI JOIN b USING (x) RIGHT ONLY JOIN c USING (x) FULL JOIN ANY d USING (x)",
        "SELECT * FROM a LEFT SEMI JOIN b USING (x) RIGHT ONLY JOIN c USING (x) FULL JOIN ANY d USING (x)",
    ),
    ("SELECT * FROM a EXCLUSION JOIN b USING (x)", "SELECT * FROM a EXCLUSION JOIN b USING (x)"),
    ("SELECT * FROM a, b", "SELECT * FROM a CROSS JOIN b"),
    ("SELECT * FROM t FLATTEN BY a", "SELECT * FROM t FLATTEN BY (a)"),
    ("SELECT * FROM t FLATTEN LIST BY t.a AS b", "SELECT * FROM t FLATTEN LIST BY (t.a AS b)"),
    ("SELECT * FROM t AS x FLATTEN DICT BY (a AS b, c)", "SELECT * FROM t AS x FLATTEN DICT BY (a AS b, c)"),
    ("SELECT * FROM t FLATTEN COLUMNS", "SELECT * FROM t FLATTEN COLUMNS"),
    (
        "SELECT k, COUNT(*) FROM t GROUP BY a + 1 AS k, b HAVING COUNT(*) > 1 ORDER BY k DESC, b ASC LIMIT 1 OFFSET 2",
        "SELECT k, COUNT(*) FROM t GROUP BY a + 1 AS k, b HAVING COUNT(*) > 1 ORDER BY k DESC, b LIMIT 1 OFFSET 2",
    ),
    ("SELECT a FROM t LIMIT 2, 1", "SELECT a FROM t LIMIT 1 OFFSET 2"),
    ("SELECT a FROM t GROUP COMPACT BY a", "SELECT a FROM t GROUP COMPACT BY a"),
    ("SELECT a FROM t GROUP BY ROLLUP(a, b)", "SELECT a FROM t GROUP BY GROUPING SETS ((a, b), (a), ())"),
    ("SELECT a FROM t GROUP BY CUBE(a, b)", "SELECT a FROM t GROUP BY GROUPING SETS ((a, b), (a), (b), ())"),
    (
        "SELECT a FROM t GROUP BY c, GROUPING SETS (a, (a AS x, b), ())",
        "SELECT a FROM t GROUP BY GROUPING SETS ((c, a), (c, a AS x, b), (c))",
    ),
    (
        "SELECT a FROM t GROUP BY a, HOP(ts, 'PT1M', 'PT1M', 'PT1M')",
        'SELECT a FROM t GROUP BY a, HOP(ts, "PT1M", "PT1M", "PT1M")',
    ),
    ("SELECT SUM(a) OVER w FROM t WINDOW w AS (ORDER BY b)", "SELECT SUM(a) OVER w FROM t WINDOW w AS (ORDER BY b)"),
    ("SELECT a FROM t ASSUME ORDER BY a", "SELECT a FROM t ASSUME ORDER BY a"),
    ("VALUES (1, 'a'), (2, 'b')", 'VALUES (1, "a"), (2, "b")'),
    # Several queries as one.
    ("SELECT 1 UNION ALL SELECT 2 UNION SELECT 3", "SELECT 1 UNION ALL SELECT 2 UNION SELECT 3"),
    ("SELECT 1 UNION DISTINCT SELECT 2", "SELECT 1 UNION SELECT 2"),
    ("(SELECT 1) UNION ALL (SELECT 2)", "SELECT 1 UNION ALL SELECT 2"),
    ("SELECT 1 UNION (SELECT 2 UNION ALL SELECT 3)", "SELECT 1 UNION (SELECT 2 UNION ALL SELECT 3)"),
    ("SELECT 1 UNION SELECT 2 INTERSECT SELECT 3", "SELECT 1 UNION (SELECT 2 INTERSECT SELECT 3)"),
    ("(SELECT 1 UNION SELECT 2) INTERSECT ALL SELECT 3", "(SELECT 1 UNION SELECT 2) INTERSECT ALL SELECT 3"),
    ("SELECT 1 EXCEPT SELECT 2 EXCEPT ALL SELECT 3", "SELECT 1 EXCEPT SELECT 2 EXCEPT ALL SELECT 3"),
    (
        "SELECT a FROM t UNION ALL SELECT a FROM u ORDER BY a LIMIT 5",
        "SELECT a FROM t UNION ALL SELECT a FROM u ORDER BY a LIMIT 5",
    ),
    (
        "(SELECT a FROM t ORDER BY a LIMIT 1) UNION ALL (SELECT a FROM u LIMIT 1)",
        "(SELECT a FROM t ORDER BY a LIMIT 1) UNION ALL (SELECT a FROM u LIMIT 1)",
    ),
    (
        "SELECT 1 AS a UNION SELECT 2 AS a INTERSECT SELECT 3 AS a ORDER BY a",
        "SELECT 1 AS a UNION SELECT 2 AS a INTERSECT SELECT 3 AS a ORDER BY a",
    ),
]


@pytest.mark.parametrize(("text", "expected"), QUERIES, ids=[text for text, _ in QUERIES])
def test_queries(text: str, expected: str) -> None:
    (read,) = parse(text).statements
    assert write_query(read) == expected  # type: ignore[arg-type]  # It is one.
    assert parse(expected) == parse(text)


STATEMENTS = [
    ("DECLARE $x AS Uint64", "DECLARE $x AS Uint64"),
    ("declare $`x` as List<Utf8>", "DECLARE $x AS List<Utf8>"),
    ('PRAGMA TablePathPrefix("/local/x")', 'PRAGMA TablePathPrefix = "/local/x"'),
    ("PRAGMA TablePathPrefix = '/local/x'", 'PRAGMA TablePathPrefix = "/local/x"'),
    ("PRAGMA OrderedColumns", "PRAGMA OrderedColumns"),
    ("PRAGMA ydb.X = 'true'", 'PRAGMA ydb.X = "true"'),
    ("PRAGMA a.B('c', 5)", 'PRAGMA a.B("c", "5")'),
    ("$a, $b = (1, 2)", "$a, $b = (1, 2)"),
    ("$x = SELECT 1 AS a", "$x = (SELECT 1 AS a)"),
    ("$x = (SELECT 1) UNION ALL (SELECT 2)", "$x = (SELECT 1 UNION ALL SELECT 2)"),
    ("$x = ($y UNION ALL $z)", "$x = ($y UNION ALL $z)"),
    ("UPSERT INTO t (a, b) VALUES (1, 2), (3, 4),", "UPSERT INTO t (a, b) VALUES (1, 2), (3, 4)"),
    ("REPLACE INTO t SELECT * FROM u", "REPLACE INTO t SELECT * FROM u"),
    ("INSERT INTO t (a) SELECT 1 AS a RETURNING *", "INSERT INTO t (a) SELECT 1 AS a RETURNING *"),
    ("INSERT OR IGNORE INTO t (a) VALUES (1) RETURNING a, b", "INSERT OR IGNORE INTO t (a) VALUES (1) RETURNING a, b"),
    ("UPSERT INTO t (a) (SELECT 1 AS a)", "UPSERT INTO t (a) SELECT 1 AS a"),
    ("UPDATE t SET a = 1, b = a + 1 WHERE c RETURNING a", "UPDATE t SET a = 1, b = a + 1 WHERE c RETURNING a"),
    ("UPDATE t SET (a, b) = (1, 2)", "UPDATE t SET a = 1, b = 2"),
    ("UPDATE t ON SELECT 1 AS a", "UPDATE t ON SELECT 1 AS a"),
    ("UPDATE t ON (a, b) VALUES (1, 2)", "UPDATE t ON (a, b) VALUES (1, 2)"),
    ("DELETE FROM t", "DELETE FROM t"),
    ("DELETE FROM t WHERE a < 1 RETURNING *", "DELETE FROM t WHERE a < 1 RETURNING *"),
    ("DELETE FROM t ON SELECT a FROM u", "DELETE FROM t ON SELECT a FROM u"),
    ("BATCH DELETE FROM t WHERE a", "BATCH DELETE FROM t WHERE a"),
    ("BATCH UPDATE t SET a = 1", "BATCH UPDATE t SET a = 1"),
    ("COMMIT", "COMMIT"),
    ("ROLLBACK", "ROLLBACK"),
    ("DISCARD SELECT 1", "DISCARD SELECT 1"),
    (
        "DEFINE ACTION $a($x, $y?) AS UPSERT INTO t (a) VALUES ($x); SELECT 1; END DEFINE",
        "DEFINE ACTION $a($x, $y?) AS UPSERT INTO t (a) VALUES ($x); SELECT 1; END DEFINE",
    ),
    ("DO $a(1, 2)", "DO $a(1, 2)"),
    ("DO BEGIN SELECT 1; END DO", "DO BEGIN SELECT 1; END DO"),
    ("DO BEGIN SELECT 1; SELECT 2 END DO", "DO BEGIN SELECT 1; SELECT 2; END DO"),
    ("DO EMPTY_ACTION ()", "DO BEGIN END DO"),
    ("$_, $second, $_ = AsTuple(1, 2, 3)", "$_, $second, $_ = AsTuple(1, 2, 3)"),
    ("EVALUATE IF $x DO $a() ELSE DO $b()", "EVALUATE IF $x DO $a() ELSE DO $b()"),
    ("EVALUATE FOR $i IN [1] DO BEGIN SELECT $i; END DO", "EVALUATE FOR $i IN [1] DO BEGIN SELECT $i; END DO"),
    # Tables.
    (
        'CREATE TABLE `mytable` (id Uint64, expire_at Timestamp, PRIMARY KEY (id)) WITH (TTL = Interval("PT0S") ON expire_at)',
        'CREATE TABLE mytable (id Uint64, expire_at Timestamp, PRIMARY KEY (id)) WITH (TTL = Interval("PT0S") ON expire_at)',
    ),
    (
        (
            "CREATE TABLE IF NOT EXISTS t (a Int32 NOT NULL DEFAULT 5, b Utf8 DEFAULT 'x' NOT NULL, c Date NULL FAMILY f, "
            "PRIMARY KEY (a, b), FAMILY f (DATA = 'ssd', COMPRESSION = 'lz4'))"
        ),
        (
            'CREATE TABLE IF NOT EXISTS t (a Int32 NOT NULL DEFAULT 5, b Utf8 NOT NULL DEFAULT "x", c Date FAMILY f NULL, '
            'PRIMARY KEY (a, b), FAMILY f (`DATA` = "ssd", `COMPRESSION` = "lz4"))'
        ),
    ),
    (
        (
            "CREATE TABLE t (a Serial, index Utf8, key Int32, PRIMARY KEY (a), INDEX i GLOBAL ON (index), "
            "INDEX u GLOBAL UNIQUE SYNC USING secondary ON (key) COVER (index), INDEX z GLOBAL ASYNC ON (key, index))"
        ),
        (
            "CREATE TABLE t (a Serial, `index` Utf8, `key` Int32, PRIMARY KEY (a), INDEX i GLOBAL SYNC ON (`index`), "
            "INDEX u GLOBAL UNIQUE SYNC USING secondary ON (`key`) COVER (`index`), "
            "INDEX z GLOBAL ASYNC ON (`key`, `index`))"
        ),
    ),
    (
        (
            "CREATE TEMPORARY TABLE t (a Int32, PRIMARY KEY (a)) PARTITION BY HASH (a) WITH (STORE = COLUMN, "
            "AUTO_PARTITIONING_BY_LOAD = ENABLED, UNIFORM_PARTITIONS = 4, PARTITION_AT_KEYS = (1, (2, 'x'), 3), A = 1.5)"
        ),
        (
            "CREATE TEMPORARY TABLE t (a Int32, PRIMARY KEY (a)) PARTITION BY HASH (a) WITH (STORE = `COLUMN`, "
            'AUTO_PARTITIONING_BY_LOAD = ENABLED, UNIFORM_PARTITIONS = 4, PARTITION_AT_KEYS = (1, (2, "x"), 3), A = 1.5)'
        ),
    ),
    (
        "CREATE TABLE t (a, b, PRIMARY KEY (a)) AS SELECT 1 AS a, 2 AS b",
        "CREATE TABLE t (a, b, PRIMARY KEY (a)) AS SELECT 1 AS a, 2 AS b",
    ),
    (
        (
            "CREATE TABLE t (a Int32, PRIMARY KEY (a), CHANGEFEED f WITH (MODE = 'UPDATES', FORMAT = 'JSON', "
            "RETENTION_PERIOD = Interval('PT1H'), VIRTUAL_TIMESTAMPS = TRUE))"
        ),
        (
            'CREATE TABLE t (a Int32, PRIMARY KEY (a), CHANGEFEED f WITH (MODE = "UPDATES", FORMAT = "JSON", '
            'RETENTION_PERIOD = Interval("PT1H"), VIRTUAL_TIMESTAMPS = TRUE))'
        ),
    ),
    ("ALTER TABLE `mytable` RESET (TTL)", "ALTER TABLE mytable RESET (TTL)"),
    (
        "ALTER TABLE t SET (TTL = Interval('PT1H') DELETE ON c AS SECONDS)",
        'ALTER TABLE t SET (TTL = Interval("PT1H") ON c AS SECONDS)',
    ),
    ("ALTER TABLE t SET TTL Interval('P1D') ON c", 'ALTER TABLE t SET (TTL = Interval("P1D") ON c)'),
    (
        "ALTER TABLE t SET (TTL = Interval('P1D') TO EXTERNAL DATA SOURCE `/s3`, Interval('P2D') DELETE ON c)",
        'ALTER TABLE t SET (TTL = Interval("P1D") TO EXTERNAL DATA SOURCE `/s3`, Interval("P2D") DELETE ON c)',
    ),
    (
        "ALTER TABLE t ADD COLUMN a Uint64 NOT NULL DEFAULT 0, ADD b Utf8, DROP COLUMN c, DROP d",
        "ALTER TABLE t ADD COLUMN a Uint64 NOT NULL DEFAULT 0, ADD COLUMN b Utf8, DROP COLUMN c, DROP COLUMN d",
    ),
    (
        "ALTER TABLE t ADD INDEX i GLOBAL ON (a), DROP INDEX j, RENAME INDEX k TO l, RENAME TO u",
        "ALTER TABLE t ADD INDEX i GLOBAL SYNC ON (a), DROP INDEX j, RENAME INDEX k TO l, RENAME TO u",
    ),
    (
        "ALTER TABLE t ALTER COLUMN a DROP NOT NULL, ALTER COLUMN b SET DEFAULT 5, ALTER COLUMN c SET FAMILY f",
        "ALTER TABLE t ALTER COLUMN a DROP NOT NULL, ALTER COLUMN b SET DEFAULT 5, ALTER COLUMN c SET FAMILY f",
    ),
    (
        "ALTER TABLE t ADD FAMILY f (DATA = 'hdd'), ALTER FAMILY g SET DATA 'ssd'",
        'ALTER TABLE t ADD FAMILY f (`DATA` = "hdd"), ALTER FAMILY g SET `DATA` "ssd"',
    ),
    (
        "ALTER TABLE t ALTER INDEX i SET (MIN = 2), ALTER INDEX i RESET (MIN)",
        "ALTER TABLE t ALTER INDEX i SET (MIN = 2), ALTER INDEX i RESET (MIN)",
    ),
    (
        "ALTER TABLE t ADD CHANGEFEED f WITH (MODE = 'KEYS_ONLY'), DROP CHANGEFEED g",
        'ALTER TABLE t ADD CHANGEFEED f WITH (MODE = "KEYS_ONLY"), DROP CHANGEFEED g',
    ),
    ("DROP TABLE IF EXISTS `a/b`", "DROP TABLE IF EXISTS `a/b`"),
    ("DROP TABLESTORE t", "DROP TABLESTORE t"),
    (
        "CREATE VIEW IF NOT EXISTS v WITH (security_invoker = TRUE) AS SELECT  a -- why\n FROM t;",
        "CREATE VIEW IF NOT EXISTS v WITH (security_invoker = TRUE) AS SELECT  a -- why\n FROM t",
    ),
    (
        "CREATE VIEW v WITH security_invoker = TRUE AS SELECT 1",
        "CREATE VIEW v WITH (security_invoker = TRUE) AS SELECT 1",
    ),
    ("DROP VIEW IF EXISTS v", "DROP VIEW IF EXISTS v"),
    ("ALTER SEQUENCE s RESTART", "ALTER SEQUENCE s RESTART"),
    (
        "ALTER SEQUENCE IF EXISTS `/a/s` RESTART 5 START 1 INCREMENT 2",
        "ALTER SEQUENCE IF EXISTS `/a/s` START WITH 1 INCREMENT BY 2 RESTART WITH 5",
    ),
    ("ALTER SEQUENCE s INCREMENT BY 7", "ALTER SEQUENCE s INCREMENT BY 7"),
    ("SHOW CREATE TABLE `a/t`", "SHOW CREATE TABLE `a/t`"),
    ("SHOW CREATE VIEW v", "SHOW CREATE VIEW v"),
    # Users.
    ("CREATE USER u PASSWORD 'p' NOLOGIN", 'CREATE USER u PASSWORD "p" NOLOGIN'),
    ("ALTER USER u WITH PASSWORD NULL", "ALTER USER u PASSWORD NULL"),
    ("ALTER USER u RENAME TO w", "ALTER USER u RENAME TO w"),
    ("DROP USER IF EXISTS u, w", "DROP USER IF EXISTS u, w"),
    ("CREATE GROUP g WITH USER a, b", "CREATE GROUP g WITH USER a, b"),
    ("ALTER GROUP g ADD USER a", "ALTER GROUP g ADD USER a"),
    (
        "GRANT SELECT ROW, 'ydb.generic.read', CREATE TABLE ON `/local/a`, b TO u, w WITH GRANT OPTION",
        'GRANT SELECT ROW, "ydb.generic.read", CREATE TABLE ON `/local/a`, b TO u, w WITH GRANT OPTION',
    ),
    ("REVOKE GRANT OPTION FOR ALL PRIVILEGES ON a FROM u", "REVOKE GRANT OPTION FOR ALL ON a FROM u"),
]


@pytest.mark.parametrize(("text", "expected"), STATEMENTS, ids=[text for text, _ in STATEMENTS])
def test_statements(text: str, expected: str) -> None:
    written = write(parse(text))
    assert written == f"{expected};\n"
    assert parse(written) == parse(text)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        (" -- nothing\n/* at all */ ;;", 0),
        ("--!syntax_v1\nSELECT 1;", 1),
        ("SELECT 1; SELECT 2;; SELECT 3", 3),
        ("SELECT /* a ; comment */ 1 -- ; another\n; SELECT ';'", 2),
        ("SELECT 'a\nb'; SELECT @@a;b@@", 2),
    ],
)
def test_statements_are_counted(text: str, count: int) -> None:
    assert len(parse(text).statements) == count


ANSI = [
    ("select 'string value' as \"name with space\"", 'SELECT "string value" AS `name with space`'),
    ("SELECT 'it''s', 'back\\slash', '\"'", 'SELECT "it\'s", "back\\\\slash", "\\""'),
    ('SELECT "t"."a ""b""" FROM "dir/t" AS "t"', 'SELECT `t`.`a "b"` FROM `dir/t` AS t'),
    ("SELECT `a`, 'x'u, @@y@@", 'SELECT `a`, "x"u, "y"'),
]


@pytest.mark.parametrize(("text", "expected"), ANSI, ids=[text for text, _ in ANSI])
def test_texts_for_the_ansi_lexer(text: str, expected: str) -> None:
    assert write(parse(f"--!syntax_v1\n--!ansi_lexer\n{text}")) == f"{expected};\n"


def test_only_lines_before_the_first_statement_choose_the_lexer() -> None:
    assert write(parse('SELECT 1;\n--!ansi_lexer\nSELECT "a"')) == 'SELECT 1;\nSELECT "a";\n'
