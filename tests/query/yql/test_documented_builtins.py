"""Callables, folds over parts, types as values, and members that are named by expressions.

Source: https://ydb.tech/docs/en/yql/reference/builtins/basic, `builtins/list` and `builtins/types`.
"""

from __future__ import annotations

from typing import Any

import pytest

from query.yql.asking import columns, refusal, rows

SHAPES = "$shape = Variant<num: Int32, flag: Bool>; $num = ($x) -> (2 * $x); $flag = ($x) -> (IF($x, 200, 10));\n"
PAIR = "$pair = Variant<Int32, Int64>; $one = ($x) -> ($x + 1); $two = ($x) -> ($x * 2);\n"
ADD = "$add = ($item, $state) -> ($item + $state);\n"

RESULTS: list[tuple[str, str, Any]] = [
    # Variants.
    (f"{SHAPES}SELECT Visit(Variant(5, 'num', $shape), $num AS num, $flag AS flag)", "Int32", 10),
    (f"{SHAPES}SELECT Visit(Just(Variant(true, 'flag', $shape)), $flag AS flag, $num AS num)", "Int32?", 200),
    (f"{SHAPES}SELECT Visit(Nothing(OptionalType($shape)), $num AS num, $flag AS flag)", "Int32?", None),
    (f"{SHAPES}SELECT Visit(NULL, $num AS num, $flag AS flag)", "Null", None),
    (f"{PAIR}SELECT Visit(Variant(5, '0', $pair), $one, $two)", "Int64", 6),
    (f"{PAIR}SELECT Visit(Variant(5l, '1', $pair), $one, $two)", "Int64", 10),
    (f"{SHAPES}SELECT VisitOrDefault(Variant(true, 'flag', $shape), 7, $num AS num)", "Int32", 7),
    (f"{PAIR}SELECT VisitOrDefault(Variant(5, '0', $pair), CAST(7 AS Int64) ?? 0l, $one)", "Int64", 6),
    ("SELECT VariantItem(NULL)", "Null", None),
    ("SELECT Way(NULL)", "Null", None),
    ("$i = Int32; $v = Variant<$i, $i>; SELECT VariantItem(Variant(5, '1', $v))", "Int32", 5),
    # Callables.
    ("$f = Callable(Callable<(Int32) -> String>, ($x) -> (CAST($x AS String))); SELECT $f(10)", "String", b"10"),
    ("$f = (Callable(Callable<(Int8) -> Int64>, ($x) -> ($x)), 1); SELECT $f.0(10t)", "Int64", 10),
    ("$f = Callable(Callable<(Int64) -> Int64>, ($x) -> ($x + 1)); SELECT $f(1)", "Int64", 2),
    ("SELECT ListMap([1, 2], Callable(Callable<(Int32) -> Int32>, ($x) -> ($x + 1)))", "List<Int32>", [2, 3]),
    ("$f = Callable(Callable<(Int32, [Int32?]) -> Int32>, ($x, $y) -> ($x + ($y ?? 0))); SELECT $f(1)", "Int32", 1),
    ("$f = Callable(Callable<(Int32, [Int32?]) -> Int32>, ($x, $y) -> ($x + ($y ?? 0))); SELECT $f(1, 2)", "Int32", 3),
    ("$f = Callable(Callable<(Int32{Flags: AutoMap}) -> Int32>, ($x) -> ($x + 1)); SELECT $f(NULL + 1)", "Int32?", None),
    ("SELECT MAX(f) FROM (SELECT Callable(Callable<(Int64?) -> Int64?>, ($x) -> ($x + n))(1) AS f FROM t)", "Int64?", 31),
    # Structs and tuples.
    ("SELECT StaticMap(<|a: 1, b: 2.5|>, ($x) -> (CAST($x AS String)))", "Struct<'a':String,'b':String>", (b"1", b"2.5")),
    ("SELECT StaticMap((1, 'x'), ($x) -> (Just($x)))", "Tuple<Int32?,String?>", (1, b"x")),
    (
        "SELECT StaticMap(StaticZip(<|a: 1, b: 2.0|>, <|a: 3.0, b: 4|>), ($pair) -> ($pair.0 + $pair.1))",
        "Struct<'a':Double,'b':Double>",
        (4.0, 6.0),
    ),
    ("SELECT StaticZip((1, 'x'))", "Tuple<Tuple<Int32>,Tuple<String>>", ((1,), (b"x",))),
    (f"{ADD}SELECT StaticFold((1, 2, 3), 4, $add)", "Int32", 10),
    (f"{ADD}SELECT StaticFold(<|a: 1, b: 2.5|>, 4, $add)", "Double", 7.5),
    (f"{ADD}SELECT StaticFold((), 4, $add)", "Int32", 4),
    (f"{ADD}SELECT StaticFold1((1, 2, 3), ($x) -> ($x * 10), $add)", "Int32", 15),
    (f"{ADD}SELECT StaticFold1((), ($x) -> ($x), $add)", "Null", None),
    # Lists.
    (f"{ADD}SELECT ListFold([], 3, $add)", "Int32", 3),
    (f"{ADD}SELECT ListFold1([], ($x) -> ($x), $add)", "Null", None),
    ("SELECT ListFoldMap([], 1, ($x, $s) -> (($x * $s, $x + $s)))", "EmptyList", []),
    (
        "SELECT ListFold1Map([1, 4, 7, 2], ($x) -> (($x + 1, $x + 2)), ($x, $s) -> (($x * $s, $x + $s)))",
        "List<Int32>",
        [2, 12, 49, 28],
    ),
    ("SELECT ListFold1Map([], ($x) -> (($x, $x)), ($x, $s) -> (($x, $s)))", "EmptyList", []),
    ("SELECT ListFold1Map(ListCreate(Int32), ($x) -> (($x, $x)), ($x, $s) -> (($x, $s)))", "List<Int32>", []),
    ("SELECT ListUnionAll([<|x: 1|>], [<|y: 2|>, <|y: 3|>])", "List<Struct<'x':Int32?,'y':Int32?>>",
     [(1, None), (None, 2), (None, 3)]),
    ("SELECT ListUnionAll([<|x: 1|>], [<|x: 2l|>])", "List<Struct<'x':Int64>>", [(1,), (2,)]),
    ("SELECT ListTop([3, 1, 2], 2)", "List<Int32>", [1, 2]),
    ("SELECT ListTopSortDesc([3, 1, 2], 2)", "List<Int32>", [3, 2]),
    ("SELECT ListTopSortAsc([3, 1, 2], 2, ($x) -> (-$x))", "List<Int32>", [3, 2]),
    ("SELECT ListTop(Nothing(List<Int32>?), 2)", "List<Int32>?", None),
    ("SELECT ListFromTuple((1, 2))", "List<Int32>", [1, 2]),
    ("SELECT ListToTuple(['a', 'b'], 2)", "Tuple<String,String>", (b"a", b"b")),
    # Dictionaries.
    ("SELECT DictInsert({1: 'a'}, 1, 'b')", "Dict<Int32,String>", {1: b"a"}),
    ("SELECT DictInsert({1: 'a'}, 2, 'b')", "Dict<Int32,String>", {1: b"a", 2: b"b"}),
    ("SELECT DictUpsert({1: 'a'}, 1, 'b')", "Dict<Int32,String>", {1: b"b"}),
    ("SELECT DictUpdate({1: 'a'}, 2, 'b')", "Dict<Int32,String>", {1: b"a"}),
    ("SELECT DictRemove({1: 'a', 2: 'b'}, 2)", "Dict<Int32,String>", {1: b"a"}),
    # Members by expressions.
    ("$n = 'b' || 'c'; SELECT <|a: 1, $n: 2|>", "Struct<'a':Int32,'bc':Int32>", (1, 2)),
    ("SELECT <|'in' || 'line': 1, `a b`: 2, 'c d': 3|>", "Struct<'a b':Int32,'c d':Int32,'inline':Int32>", (2, 3, 1)),
    ("$n = 'a'; $s = <|a: 1, b: 2|>; SELECT $s.$n", "Int32", 1),
    ("$n = 'n'; SELECT t.$n FROM t WHERE id = 2", "Int64?", 20),
    # Types by named expressions.
    ("$t = Uint8; SELECT CAST('7' AS $t)", "Uint8?", 7),
    ("$t = List<Int32>; SELECT ListCreate($t)", "List<List<Int32>>", []),
    ("$t = Uint8; SELECT FormatType(Struct<a: $t?, b: List<$t>>)", "String", b"Struct<'a':Optional<Uint8>,'b':List<Uint8>>"),
    # Other values.
    ("SELECT AsOptional(1)", "Int32?", 1),
    ("SELECT AsOptional(Just(1))", "Int32?", 1),
    ("SELECT Concat('a', 'b', 'c')", "String", b"abc"),
    ("SELECT Concat('a'u, Nothing(Utf8?))", "Utf8?", None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "kind", "expected"), RESULTS, ids=[text for text, *_ in RESULTS])
def test_results(text: str, kind: str, expected: Any) -> None:
    assert columns(text).partition(" ")[2] == kind
    assert rows(text) == [(expected,)]


TYPES = [
    ("FormatType(ParseType('List<Int32>'))", "List<Int32>"),
    ("FormatType(ParseType('Struct<foo:Int32,bar:Double?>'))", "Struct<'foo':Int32,'bar':Optional<Double>>"),
    ("FormatType(TypeOf(InstanceOf(ParseType('Int32')) + InstanceOf(ParseType('Double'))))", "Double"),
    (
        "FormatType(CallableType(1, DataType('Double'), DataType('String'), OptionalType(DataType('Int64'))))",
        "Callable<(String,[Optional<Int64>])->Double>",
    ),
    ("FormatType(CallableResultType(ParseType('(String,Bool)->Double')))", "Double"),
    ("FormatType(CallableArgumentType(ParseType('(String,Bool)->Double'), 1))", "Bool"),
    ("FormatType(ResourceType('Foo'))", "Resource<'Foo'>"),
    ("FormatType(AsOptionalType(Int32?))", "Optional<Int32>"),
    ("FormatType(TypeHandle(TypeOf('foo')))", "String"),
    ("FormatType(EvaluateType(TypeHandle(TypeOf('foo'))))", "String"),
    ("FormatType(ListItemType(ParseTypeHandle('List<Int32>')))", "Int32"),
    ("FormatType(VariantUnderlyingType(ParseTypeHandle('Variant<Int32,Double>')))", "Tuple<Int32,Double>"),
    ("TypeKind(TypeHandle(TypeOf('foo')))", "Data"),
    ("TypeKind(ParseTypeHandle('List<Int32>'))", "List"),
    ("TypeKind(ParseTypeHandle('()->Int32'))", "Callable"),
    ("FormatType(DataTypeHandle(AsList('Decimal', '4', '1')))", "Decimal(4,1)"),
    ("FormatType(OptionalTypeHandle(TypeHandle(DataType('Bool'))))", "Optional<Bool>"),
    ("FormatType(ListTypeHandle(TypeHandle(DataType('Bool'))))", "List<Bool>"),
    ("FormatType(EmptyListTypeHandle())", "EmptyList"),
    ("FormatType(TupleTypeHandle(AsList(ParseTypeHandle('Int32'), ParseTypeHandle('String'))))", "Tuple<Int32,String>"),
    ("FormatType(StructTypeHandle([<|Type: ParseTypeHandle('Int32'), Name: 'a'|>]))", "Struct<'a':Int32>"),
    ("FormatType(DictTypeComponents(ParseTypeHandle('Dict<Int32,String>')).Payload)", "String"),
    ("FormatType(DictTypeHandle(ParseTypeHandle('Int32'), ParseTypeHandle('String')))", "Dict<Int32,String>"),
    ("ResourceTypeTag(ParseTypeHandle('Resource<foo>'))", "foo"),
    ("FormatType(ResourceTypeHandle('foo'))", "Resource<'foo'>"),
    ("TaggedTypeComponents(ParseTypeHandle('Tagged<Int32,foo>')).Tag", "foo"),
    ("FormatType(TaggedTypeHandle(ParseTypeHandle('Int32'), 'foo'))", "Tagged<Int32,'foo'>"),
    ("FormatType(VariantTypeHandle(ParseTypeHandle('Tuple<Int32, String>')))", "Variant<Int32,String>"),
    ("FormatType(VoidTypeHandle())", "Void"),
    ("FormatType(NullTypeHandle())", "Null"),
    (
        "FormatType(CallableTypeHandle(TypeHandle(Int32), [CallableArgument(TypeHandle(Int64), 'a', ['AutoMap'])]))",
        "Callable<('a':Int64{Flags:AutoMap})->Int32>",
    ),
]


@pytest.mark.parametrize(("call", "expected"), TYPES)
def test_types(call: str, expected: str) -> None:
    (((found),),) = rows(f"SELECT {call}")
    assert found.decode() == expected


BARRED = "ParseTypeHandle('(Int32,[bar:Double?{Flags:AutoMap}])->String')"
COMPONENTS: list[tuple[str, Any]] = [
    ("DataTypeComponents(ParseTypeHandle('Decimal(4,1)'))", [b"Decimal", b"4", b"1"]),
    ("ListMap(TupleTypeComponents(ParseTypeHandle('Tuple<Int32, String>')), ($x) -> (FormatType($x)))", [b"Int32", b"String"]),
    (
        "ListMap(StructTypeComponents(ParseTypeHandle('Struct<a:Int32>')), ($x) -> ((FormatType($x.Type), $x.Name)))",
        [(b"Int32", b"a")],
    ),
    (
        f"ListMap(CallableTypeComponents({BARRED}).Arguments, ($x) -> ((FormatType($x.Type), $x.Name, $x.Flags)))",
        [(b"Int32", b"", []), (b"Optional<Double>", b"bar", [b"AutoMap"])],
    ),
    ("CallableTypeComponents(ParseTypeHandle('(Int32,[Double?])->String')).OptionalArgumentsCount", 1),
]  # fmt: skip


@pytest.mark.parametrize(("call", "expected"), COMPONENTS)
def test_components(call: str, expected: Any) -> None:
    assert rows(f"SELECT {call}") == [(expected,)]


PICKLED = [
    ("123", "Int32"),
    ("-1.5e300", "Double"),
    ("'a\\x00'", "String"),
    ("'я'u", "Utf8"),
    ("Just(Just(1))", "Int32??"),
    ("Nothing(Int32?)", "Int32?"),
    ("[(1, 'x'), (2, 'y')]", "List<Tuple<Int32,String>>"),
    ("<|b: true, a: {1: 'x'}|>", "Struct<a:Dict<Int32,String>,b:Bool>"),
    ("Decimal('1.5', 22, 9)", "Decimal(22,9)"),
    ("Timestamp('2020-01-01T00:00:00.5Z')", "Timestamp"),
    ("TzDate('2020-01-01,Europe/Moscow')", "TzDate"),
    ("TzDate32('1900-01-01,Europe/Moscow')", "TzDate32"),
    ("Just(AsTagged(Nothing(Int32?), 't'))", "Tagged<Int32?,t>?"),
    ("Uuid('f9d5cc3f-f1dc-4d9c-b97e-766e57ca4ccb')", "Uuid"),
    ("Yson('{a=1}')", "Yson"),
    ("Variant(1, 'b', Variant<a:String,b:Int32>)", "Variant<a:String,b:Int32>"),
]


@pytest.mark.parametrize(("value", "kind"), PICKLED)
@pytest.mark.parametrize("function", ["Pickle", "StablePickle"])
def test_what_is_pickled_comes_back(function: str, value: str, kind: str) -> None:
    ((before, after),) = rows(f"SELECT {value}, Unpickle({kind}, {function}({value}))")
    assert before == after


def test_equal_dictionaries_have_equal_pickles() -> None:
    ((one, two),) = rows("SELECT StablePickle({1: 2, 3: 4}), StablePickle({3: 4, 1: 2})")
    assert one == two


REFUSED = [
    (f"{SHAPES}SELECT Visit(Variant(5, 'num', $shape), $num AS num)", "Missing handler of alternative: flag"),
    (f"{SHAPES}SELECT Visit(Variant(5, 'num', $shape), $num AS num, $num AS no)", "Unknown alternative: no"),
    (
        f"{SHAPES}SELECT Visit(Variant(5, 'num', $shape), $num, $flag)",
        "Handlers of a variant over a struct must be named",
    ),
    (f"{PAIR}SELECT Visit(Variant(5, '0', $pair), $one AS a, $two AS b)", "over a tuple must not be named"),
    ("SELECT Visit(1)", "Expected variant type, but got: Int32"),
    ("SELECT Callable(Int32, ($x) -> ($x))", "Expected callable type, but got: Int32"),
    ("SELECT Callable(Callable<(Int32) -> Bool>, ($x) -> ($x))", "Mismatch of types of result: Int32 != Bool"),
    ("SELECT Callable(Callable<(Int32) -> Bool>, ($x, $y) -> (true))", "Expected 2 arguments of a lambda, but got: 1"),
    ("$f = Callable(Callable<(Int32) -> Int32>, ($x) -> ($x)); SELECT $f()", "Expected 1 to 1 arguments, but got: 0"),
    ("$f = Callable(Callable<(Int32) -> Int32>, ($x) -> ($x)); SELECT $f('a')", "Mismatch type argument #1"),
    ("SELECT FormatType(Callable<([Int32]) -> Int32>)", "Optional arguments of a Callable must have optional types"),
    ("SELECT StaticMap(1, ($x) -> ($x))", "Expected struct or tuple type, but got: Int32"),
    ("SELECT StaticZip((1, 2), (1,))", "Mismatch of parts of argument #2: Tuple<Int32>"),
    ("SELECT StaticZip((1, 2), <|a: 1, b: 2|>)", "Mismatch of parts of argument #2"),
    ("SELECT ListFold1Map([1], ($x) -> ($x), ($x, $s) -> (($x, $s)))", "Expected a tuple of a result and a state"),
    ("SELECT ListFold([], 3, 4)", "Expected a lambda as argument #3, but got a value"),
    ("SELECT ListUnionAll([1])", "Expected list of structs, but got: List<Int32>"),
    ("SELECT ListToTuple([1], 2)", "Expected a list of 2 items, but got 1"),
    ("SELECT ListFromTuple((1, 'a'))", "Expected a tuple of one type"),
    ("SELECT <|$n: 1|>", "Unknown name: $n"),
    ("$n = 1; SELECT <|$n: 1|>", "Expected a constant String as the name of a member"),
    ("$n = 'a'; SELECT <|$n: 1, a: 2|>", "Duplicated member: a"),
    ("$n = 'z'; $s = <|a: 1|>; SELECT $s.$n", "Member not found: z"),
    ("$t = 1; SELECT CAST(1 AS $t)", "Expected a type, but $t is none"),
    ("$t = Int32; SELECT $t", "Expected a value here, and not a lambda or a type"),
    ("SELECT FormatType(ParseType('Nope'))", "Failed to parse type"),
    ("SELECT FormatType(ParseType('List<'))", "Failed to parse type"),
    ("SELECT FormatType(ParseTypeHandle(v)) FROM t", "Failed to parse type"),
    ("SELECT FormatType(ParseType(v)) FROM t", "Expected a constant"),
    ("SELECT ListLength(TupleTypeComponents(TypeHandle(Int32)))", "Expected tuple type, but got: Int32"),
    ("DECLARE $x AS Callable<() -> Int32>; SELECT 1", "Type Callable is not supported"),
    ("DECLARE $x AS List<Resource<a>>; SELECT 1", "Type Resource is not supported"),
    ("SELECT CAST(1 AS Stream<Int32>)", "Type Stream is not supported"),
    ("SELECT Callable(Callable<(Int32) -> Int32>, ($x) -> ($x))", "Expected persistable data"),
    ("SELECT TypeHandle(Int32)", "Expected persistable data"),
    ("SELECT Unpickle(Uint8, Pickle(256))", "Failed to unpickle a value of type Uint8"),
    ("SELECT Unpickle(Int32, 'x')", "Failed to unpickle a value of type Int32"),
    ("SELECT Unpickle(List<Int32>, Pickle((1, 'a')))", "Failed to unpickle a value of type List<Int32>"),
    ("SELECT Unpickle(Utf8, '\\xc4\\x01\\xff')", "Failed to unpickle a value of type Utf8"),
    ("SELECT Pickle(Callable(Callable<() -> Int32>, () -> (1)))", "Expected persistable data"),
    ("SELECT EvaluateExpr(1)", "Function EvaluateExpr is not supported"),
]


@pytest.mark.parametrize(("text", "said"), REFUSED, ids=[text for text, _ in REFUSED])
def test_refusals(text: str, said: str) -> None:
    assert said in refusal(text)
