"""Texts that are no YQL, or that Mayfly does not support: messages of refusals and their positions.

Columns of errors in the grammar count from 0, those of other errors from 1, as in YDB:
https://github.com/ydb-platform/ydb `yql/essentials/sql/v1/sql_ut_common_errors.cpp`.
"""

from __future__ import annotations

import pytest

from mayflydb.query.yql.faults import Fault
from mayflydb.query.yql.parser import parse, parse_type

UNION_ORDER = "ORDER BY within UNION ALL is only allowed after last subquery"
BEHIND = "expecting {<EOF>, ';'}"

GRAMMAR = [
    ("SELECT 1 form Wat", 1, 14, f"extraneous input 'Wat' {BEHIND}"),
    ("SELECT @@foo@@ @ @@bar@@", 1, 15, f"mismatched input '@' {BEHIND}"),
    ("SELECT @@@@@@", 1, 12, f"extraneous input '@' {BEHIND}"),
    ("SELECT 1;\nSELECT 2 2", 2, 9, f"extraneous input '2' {BEHIND}"),
    ("SELECT 'ж', 1 1 1", 1, 15, f"mismatched input '1' {BEHIND}"),
    ("SELECT CASE WHEN TRUE 1;", 1, 22, "missing THEN at '1'"),
    ("SELECT * FROM", 1, 13, "mismatched input '<EOF>' expecting {ID_PLAIN, ID_QUOTED}"),
    ("SELECT (1", 1, 9, "mismatched input '<EOF>' expecting ')'"),
    ("SELECT a FROM t GROUP a", 1, 22, "mismatched input 'a' expecting BY"),
    ("SELECT a b c", 1, 11, f"extraneous input 'c' {BEHIND}"),
    ("SELECT a IS b", 1, 12, "mismatched input 'b' expecting {DISTINCT, NOT, NULL}"),
    ("SELECT a = b IS NULL", 1, 13, f"mismatched input 'IS' {BEHIND}"),
    ("SELECT a IS NULL = b", 1, 17, f"mismatched input '=' {BEHIND}"),
    ("UPSERT t VALUES (1)", 1, 7, "mismatched input 't' expecting INTO"),
    ("DELETE t", 1, 7, "mismatched input 't' expecting FROM"),
    ("UPDATE t a = 1", 1, 9, "mismatched input 'a' expecting {ON, SET}"),
    (
        "CREATE x",
        1,
        7,
        "mismatched input 'x' expecting {EXTERNAL, GROUP, OR, TABLE, TABLESTORE, TEMP, TEMPORARY, TOPIC, USER, VIEW}",
    ),
    ("ALTER TABLE t FOO", 1, 14, "mismatched input 'FOO' expecting {ADD, ALTER, DROP, RENAME, RESET, SET}"),
    ("CREATE TABLE t (a Int32, INDEX i GLOBAL (a))", 1, 40, "mismatched input '(' expecting ON"),
    ("BATCH INSERT INTO t VALUES (1)", 1, 6, "mismatched input 'INSERT' expecting {DELETE, UPDATE}"),
    ("DECLARE x AS Int32", 1, 8, "mismatched input 'x' expecting '$'"),
    ("$x = ($a) -> { $b = 1; }", 1, 23, "mismatched input '}' expecting {'$', RETURN}"),
    (
        'CREATE TABLE t (k Uint32, c Uint32, PRIMARY KEY (k))\nWITH (TTL = Interval("P1D") On c AS PICOSECONDS);',
        2,
        36,
        "mismatched input 'PICOSECONDS' expecting {MICROSECONDS, MILLISECONDS, NANOSECONDS, SECONDS}",
    ),
    ("FOO", 1, 0, None),
]


@pytest.mark.parametrize(("text", "row", "column", "message"), GRAMMAR, ids=[row[0] for row in GRAMMAR])
def test_errors_in_the_grammar(text: str, row: int, column: int, message: str | None) -> None:
    with pytest.raises(Fault) as caught:
        parse(text)
    (issue,) = caught.value.issues
    assert caught.value.status == "GENERIC_ERROR"
    assert message is None or issue.message == message
    assert issue.position is not None
    assert (issue.position.row, issue.position.column) == (row, column)


WRONG = [
    # Characters and literals.
    ("SELECT * FROM сedar", 1, 15, "token recognition error at: 'сedar'"),
    ("SELECT 'open", 1, 8, "token recognition error at: ''open'"),
    ("SELECT /* open", 1, 8, "token recognition error at: '/* open'"),
    ("SELECT #", 1, 8, "token recognition error at: '#'"),
    ('SELECT "foo\\x1\\xfe"', 1, 8, "Failed to parse string literal: Invalid hexadecimal value near byte 7"),
    ("SELECT '\\uD800'", 1, 8, "Failed to parse string literal: Invalid unicode value near byte 2"),
    ("SELECT '\\xff'u", 1, 8, "Invalid UTF-8 in string literal"),
    (
        "SELECT 18446744073709551616",
        1,
        8,
        "Failed to parse number from string: 18446744073709551616, number limit overflow",
    ),
    ("SELECT 256ut", 1, 8, "Failed to parse 256 as integer literal of Uint8 type: value out of range for Uint8"),
    ("SELECT 1e999", 1, 8, "Failed to parse number from string: 1e999, number limit overflow"),
    ("SELECT 1 AS `\\xff`", 1, 13, None),
    ("$`` = 1", 1, 1, "Empty symbol name is not allowed"),
    ('UPSERT INTO "users" (id) VALUES (1)', 1, 13, "String literal can not be used here"),
    ("SELECT 1 AS 'a'", 1, 13, "String literal can not be used here"),
    # What makes no sense together.
    ("SELECT CASE a WHEN b THEN c END", 1, 8, "ELSE is required"),
    ("SELECT {1: 2, 3}", 1, 8, "Expecting either a dict or a set, keys with values are mixed with keys alone"),
    ("SELECT (1 AS a, 2)", 1, 8, "Structure does not allow anonymous members"),
    ("SELECT ($a?, $b) -> ($a)", 1, 14, "Non-optional argument can not follow optional one"),
    (
        "SELECT * FROM a ORDER BY a\nUNION ALL SELECT * FROM b",
        1,
        17,
        "ORDER BY within UNION ALL is only allowed after last subquery",
    ),
    (
        "SELECT * FROM a LIMIT 1 UNION ALL SELECT * FROM b",
        1,
        17,
        "LIMIT within UNION ALL is only allowed after last subquery",
    ),
    ("VALUES (1,2,3), (4,5)", 1, 17, "All VALUES items should have same size: expecting 3, got 2"),
    ("SELECT a,b,c FROM plato.Input AS t(x,y,z)", 1, 35, "Derived column list is only supported for VALUES"),
    (
        "SELECT * FROM(VALUES (1,2), (3,4)) AS t(x,y,z)",
        1,
        40,
        "Derived column list size exceeds column count in VALUES",
    ),
    ("SELECT * FROM a CROSS JOIN ANY b", 1, 28, "ANY should not be used with Cross JOIN"),
    ("SELECT * FROM a JOIN b", 1, 23, "Expecting ON or USING expression"),
    ("SELECT * FROM t FLATTEN BY x.y", 1, 30, "Unnamed expression after FLATTEN BY is not allowed"),
    ("UPSERT INTO t (a, b) VALUES (1)", 1, 16, "VALUES have 1 columns, UPSERT INTO expects: 2"),
    ("UPSERT INTO t VIEW v (a) VALUES (1)", 1, 13, "A write goes to a table, not to an index"),
    ("UPDATE t SET (a, b) = (1, 2, 3)", 1, 23, "Mismatch of columns and values: 2 and 3"),
    (
        "CREATE TABLE t (a Int32, PRIMARY KEY (a), PRIMARY KEY (a))",
        1,
        1,
        "PRIMARY KEY statement must be specified only once",
    ),
    ("DECLARE $x AS List<Int32, Int32>", 1, 15, "List takes 1 type arguments, but 2 are given"),
    ("DECLARE $x AS Decimal(1)", 1, 15, "Decimal takes a precision and a scale"),
]


@pytest.mark.parametrize(("text", "row", "column", "message"), WRONG, ids=[row[0] for row in WRONG])
def test_errors_beyond_the_grammar(text: str, row: int, column: int, message: str | None) -> None:
    with pytest.raises(Fault) as caught:
        parse(text)
    (issue,) = caught.value.issues
    assert caught.value.status == "GENERIC_ERROR"
    assert message is None or issue.message == message
    assert issue.position is not None
    assert (issue.position.row, issue.position.column) == (row, column)


UNSUPPORTED = [
    ("USE plato", "USE"),
    ("WITH a AS (SELECT 1) SELECT * FROM a", "WITH of a query (common table expression)"),
    ("PROCESS t USING f()", "PROCESS"),
    ("REDUCE t ON a USING f()", "REDUCE"),
    ("SELECT STREAM a FROM t", "SELECT STREAM"),
    ("SELECT * FROM RANGE('a', 'b')", "Table function RANGE"),
    ("SELECT * FROM t SAMPLE 0.1", "SAMPLE"),
    ("SELECT * FROM t AS x TABLESAMPLE BERNOULLI(1)", "TABLESAMPLE"),
    ("SELECT * FROM t MATCH_RECOGNIZE (PATTERN (a))", "MATCH_RECOGNIZE"),
    ("SELECT * FROM @t", "@ before a name"),
    ("SELECT * FROM a NATURAL JOIN b", "NATURAL JOIN"),
    ("SELECT * FROM t WITH (SCHEMA Struct<a:Int32>)", "Table hint SCHEMA"),
    ("SELECT a COLLATE b", "COLLATE"),
    ("SELECT SUM(a) FILTER (WHERE b)", "FILTER of an aggregate function"),
    ("SELECT CURRENT_TIMESTAMP", "CURRENT_TIMESTAMP"),
    ("SELECT 1p", None),
    ("SELECT 'a'p", "A text for PostgreSQL"),
    ("SELECT SUM(a) OVER (ORDER BY b ROWS BETWEEN $a PRECEDING AND CURRENT ROW)", "A window's frame by an expression"),
    ("SELECT 1 INTO RESULT r", "INTO RESULT"),
    ("INSERT INTO $t (a) VALUES (1)", "A name by a named expression"),
    ("INSERT INTO t DEFAULT VALUES", "DEFAULT VALUES"),
    ("UPDATE t SET (a, b) = (SELECT 1, 2)", "SET of several columns by a query"),
    ("DECLARE $x AS Int32 = 5", "A parameter's default"),
    ("DEFINE SUBQUERY $a() AS SELECT 1; END DEFINE", "DEFINE SUBQUERY"),
    ("EVALUATE PARALLEL FOR $a IN $b DO $c($a)", "PARALLEL FOR"),
    ("IMPORT a SYMBOLS $b", "IMPORT"),
    ("EXPORT $a", "EXPORT"),
    ("ANALYZE t", "ANALYZE"),
    ("TRUNCATE TABLE t", "TRUNCATE"),
    ("CREATE OR REPLACE TOPIC t", None),
    ("CREATE ASYNC REPLICATION r FOR a AS b WITH (C = 'd')", "CREATE ASYNC REPLICATION"),
    ("CREATE OR REPLACE EXTERNAL DATA SOURCE s WITH (A = 'b')", "CREATE OR REPLACE EXTERNAL DATA SOURCE"),
    ("CREATE RESOURCE POOL p WITH (A = 1)", "CREATE RESOURCE POOL"),
    ("DROP RESOURCE POOL CLASSIFIER p", "DROP RESOURCE POOL CLASSIFIER"),
    ("CREATE OBJECT a (TYPE SECRET) WITH value = 'b'", "CREATE OBJECT"),
    ("UPSERT OBJECT a (TYPE SECRET) WITH value = 'b'", "UPSERT OBJECT"),
    ("DROP SEQUENCE s", "DROP SEQUENCE"),
    ("ALTER TABLE t COMPACT", "ALTER TABLE COMPACT"),
    ("ALTER TABLE t ALTER CHANGEFEED f DISABLE", "ALTER CHANGEFEED"),
    ("ALTER TABLESTORE s DROP COLUMN a", "ALTER TABLESTORE"),
    ("CREATE USER u ENCRYPTED PASSWORD 'p'", "ENCRYPTED PASSWORD"),
    ("--!ansi_lexer\nCREATE VIEW v AS SELECT 1", "A view in a text for the ANSI lexer"),
    ("--!syntax_pg\nSELECT 1", "--!syntax_pg"),
]


@pytest.mark.parametrize(("text", "what"), UNSUPPORTED, ids=[row[0] for row in UNSUPPORTED])
def test_unsupported_syntax_is_refused_by_name(text: str, what: str | None) -> None:
    with pytest.raises(Fault) as caught:
        parse(text)
    assert caught.value.issues[0].position is not None
    if what is not None:
        assert caught.value.issues[0].message == f"{what} is not supported"


@pytest.mark.parametrize("text", ["", "Int32 Int32", "List<", "List<Int32>>", "'a'", "Struct<a>", "Int32;"])
def test_texts_that_are_no_type(text: str) -> None:
    with pytest.raises(Fault):
        parse_type(text)
