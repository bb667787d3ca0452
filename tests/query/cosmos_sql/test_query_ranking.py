"""ORDER BY RANK: its plans, the formulas, and that clients which follow the plan get what one range answers by itself."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from mayflydb.model.errors import BadQuery
from mayflydb.query.cosmos_sql import Context, Declarations, Embedding, compile_query, parse, plan, print_select, run
from mayflydb.query.cosmos_sql.functions.words import LANGUAGES, split_words

FEATURES = frozenset({"HybridSearch", "WeightedRankFusion"})
PREFIX = "{documentdb-formattablehybridsearchquery-"
SLOT = "{documentdb-formattableorderbyquery-filter}"
SWIM = 'FullTextScore(c.text, "swim", "run")'
IMAGE = "VectorDistance(c.image, [1, 2, 3])"
TEXT_SCORE = (
    f'_FullTextScore(c.text, ["swim", "run"], {PREFIX}totaldocumentcount}}, {PREFIX}totalwordcount-0}}, '
    f"{PREFIX}hitcountsarray-0}})"
)
IMAGE_SCORE = "_VectorScore(c.image, [1, 2, 3])"
COUNTED = (
    'SELECT COUNT(1) AS documentCount, [{"totalWordCount": SUM(_FullTextWordCount(c.text)), "hitCounts": '
    '[COUNTIF(FullTextContains(c.text, "swim")), COUNTIF(FullTextContains(c.text, "run"))]}] AS fullTextStatistics\nFROM c'
)


def hybrid(text: str, features: frozenset[str] = FEATURES, **parameters: Any) -> dict[str, Any]:
    query = compile_query(text, {f"@{name}": value for name, value in parameters.items()})
    found = plan(query, features, [("pk",)], lambda key: (f"<{key[0]}>", f"<{key[0]}>"))
    assert found.keys() == {"partitionedQueryExecutionInfoVersion", "hybridSearchQueryInfo", "queryRanges"}
    info: dict[str, Any] = found["hybridSearchQueryInfo"]
    return info


def test_a_plan_of_one_score() -> None:
    # But for brackets around `??` as the .NET client's tests have it.
    assert hybrid(f"SELECT TOP 10 * FROM c ORDER BY RANK {SWIM}") == {
        "globalStatisticsQuery": COUNTED,
        "componentQueryInfos": [
            {
                "distinctType": "None",
                "top": 120,
                "offset": None,
                "limit": None,
                "orderBy": ["Descending"],
                "orderByExpressions": [TEXT_SCORE],
                "groupByExpressions": [],
                "groupByAliases": [],
                "aggregates": [],
                "groupByAliasToAggregateType": {},
                "rewrittenQuery": f"""\
SELECT TOP 120 c._rid, [{{"item": {TEXT_SCORE}}}] AS orderByItems, \
{{"payload": c, "componentScores": [{TEXT_SCORE} ?? -1]}} AS payload
FROM c
WHERE ({SLOT})
ORDER BY {TEXT_SCORE} DESC""",
                "hasSelectValue": False,
                "dCountInfo": None,
                "hasNonStreamingOrderBy": True,
            }
        ],
        "componentWithoutPayloadQueryInfos": [],
        "projectionQueryInfo": None,
        "componentWeights": [],
        "skip": None,
        "take": 10,
        "requiresGlobalStatistics": True,
    }


def test_a_plan_of_two_scores() -> None:
    found = hybrid(f"SELECT c.a FROM c WHERE c.b ORDER BY RANK RRF({SWIM}, {IMAGE}) OFFSET 5 LIMIT 10")
    payload = f'{{"payload": {{"a": c.a}}, "componentScores": [{TEXT_SCORE} ?? -1, {IMAGE_SCORE} ?? -1.79769e+308]}} AS payload'
    assert [each["rewrittenQuery"] for each in found["componentQueryInfos"]] == [
        f"""\
SELECT c._rid, [{{"item": {score}}}] AS orderByItems, {payload}
FROM c
WHERE ((c.b) AND ({SLOT}))
ORDER BY {score} DESC
OFFSET 0 LIMIT 120"""
        for score in (TEXT_SCORE, IMAGE_SCORE)
    ]
    assert (found["skip"], found["take"], found["componentWeights"]) == (5, 10, [])


def test_a_plan_of_vectors_counts_nothing_and_has_no_slot() -> None:
    found = hybrid(f"SELECT TOP 10 * FROM c ORDER BY RANK RRF(VectorDistance(c.b, @v), {IMAGE}, [1, -0.3])", v=[0.5])
    one, other = found["componentQueryInfos"]
    scores = (
        '"componentScores": [_VectorScore(c.b, @v) ?? -1.79769e+308, _VectorScore(c.image, [1, 2, 3]) ?? 1.79769e+308]'
    )
    assert one["rewrittenQuery"] == (
        'SELECT TOP 120 c._rid, [{"item": _VectorScore(c.b, @v)}] AS orderByItems, '
        f'{{"payload": c, {scores}}} AS payload\nFROM c\nORDER BY _VectorScore(c.b, @v) DESC'
    )
    assert other["rewrittenQuery"].endswith(f"\nFROM c\nORDER BY {IMAGE_SCORE}")
    assert [one["orderBy"], other["orderBy"]] == [["Descending"], ["Ascending"]]
    assert found["componentWeights"] == [1.0, 0.3]
    assert not found["requiresGlobalStatistics"]
    assert found["globalStatisticsQuery"] == "SELECT COUNT(1) AS documentCount, [] AS fullTextStatistics\nFROM c"


@pytest.mark.parametrize(
    ("window", "top", "limit", "skip", "take"),
    [
        ("TOP 0", 120, None, None, 0),
        ("TOP 60", 120, None, None, 60),
        ("TOP 61", 122, None, None, 61),
        ("TOP @n", 200, None, None, 100),
        ("OFFSET 0 LIMIT 10", None, 120, 0, 10),
        ("OFFSET 51 LIMIT 10", None, 122, 51, 10),
        ("OFFSET @n LIMIT @n", None, 400, 100, 100),
        ("", None, None, None, None),
    ],
)
def test_number_of_rows_of_components(
    window: str, top: int | None, limit: int | None, skip: int | None, take: int | None
) -> None:
    head, tail = (window, "") if window.startswith("TOP") else ("", window)
    found = hybrid(f"SELECT {head} * FROM c ORDER BY RANK {SWIM} {tail}", n=100)
    (component,) = found["componentQueryInfos"]
    assert (component["top"], component["offset"], component["limit"]) == (top, None if limit is None else 0, limit)
    assert (found["skip"], found["take"]) == (skip, take)


def test_features_that_a_client_must_support() -> None:
    text = f"SELECT TOP 1 * FROM c ORDER BY RANK RRF({SWIM}, {IMAGE}, [1, 1])"
    with pytest.raises(BadQuery, match="Query contained WeightedRankFusion, which"):
        hybrid(text, frozenset({"HybridSearch"}))
    with pytest.raises(BadQuery, match="Query contained HybridSearch, which"):
        hybrid(text, frozenset({"OrderBy", "Top"}))
    assert hybrid(text.replace(", [1, 1]", ""), frozenset({"HybridSearch"}))


def test_rank_of_a_distance_is_planned_as_order_by() -> None:
    query = compile_query(f"SELECT TOP 3 * FROM c ORDER BY RANK {IMAGE}", {})
    found = plan(query, frozenset({"OrderBy", "Top", "NonStreamingOrderBy"}), [("pk",)], lambda key: ("", ""))
    assert found["queryInfo"]["hasNonStreamingOrderBy"]
    assert compile_query(found["queryInfo"]["rewrittenQuery"].replace(SLOT, "true"), {}).program.nearest


# --- against a client, and against the formulas ----------------------------------------------------------------------

DECLARED = Declarations({("v",): Embedding("euclidean", "float32", 2)}, languages={("g",): "de-DE"})
VOCABULARY = ["red", "green", "blue", "foxes", "fox", "running", "run", "the", "of", "mountain", "mountains", "bicycle"]


def documents(chance: random.Random) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for number in range(chance.randrange(1, 40)):
        text: Any = " ".join(chance.choices(VOCABULARY, k=chance.randrange(12)))
        vector = [chance.randrange(-2, 3), chance.randrange(-2, 3)]
        found.append(
            {
                "id": str(number),
                "_rid": f"r{chance.randrange(10**6):06}{number:02}",
                "n": number,
                "t": text,
                "v": vector,
            }
        )
        for name in ("t", "v"):
            if chance.random() < 0.1:
                found[-1][name] = chance.choice([None, 5, [1]])
        if chance.random() < 0.1:
            del found[-1]["t"]
    return found


def merged(text: str, ranges: list[list[dict[str, Any]]]) -> list[Any]:
    """What a client makes of the plan, written after what the JavaScript client does."""
    query = compile_query(text, {}, DECLARED)
    info = plan(query, FEATURES, [("pk",)], lambda key: ("", ""))["hybridSearchQueryInfo"]

    def answers(query: str) -> list[Any]:
        compiled = compile_query(query.replace(SLOT, "true"), {}, DECLARED)
        return [row for each in ranges for row in run(compiled, each, Context(0))]

    rows: dict[str, Any] = {}
    counted = answers(info["globalStatisticsQuery"])
    for component in info["componentQueryInfos"]:
        rewritten = component["rewrittenQuery"]
        rewritten = rewritten.replace(
            f"{PREFIX}totaldocumentcount}}", str(sum(each["documentCount"] for each in counted))
        )
        for number in range(len(counted[0]["fullTextStatistics"])):
            figures = [each["fullTextStatistics"][number] for each in counted]
            hits = [sum(column) for column in zip(*(each["hitCounts"] for each in figures), strict=True)]
            rewritten = rewritten.replace(
                f"{PREFIX}totalwordcount-{number}}}", str(sum(each["totalWordCount"] for each in figures))
            ).replace(f"{PREFIX}hitcountsarray-{number}}}", str(hits))
        rows |= {row["_rid"]: row["payload"] for row in answers(rewritten)}
    order = sorted(rows)
    sums = dict.fromkeys(order, 0.0)
    weights = info["componentWeights"] or [1.0] * len(info["componentQueryInfos"])
    for number, (component, weight) in enumerate(zip(info["componentQueryInfos"], weights, strict=True)):
        known = {rows[rid]["componentScores"][number] for rid in order}
        known_ranks = sorted(known, reverse=component["orderBy"] == ["Descending"])
        for rid in order:
            sums[rid] += weight / (60 + known_ranks.index(rows[rid]["componentScores"][number]) + 1)
    best = sorted(order, key=lambda rid: -sums[rid])
    skip, take = info["skip"] or 0, info["take"]
    return [rows[rid]["payload"] for rid in best][skip : None if take is None else skip + take]


FUSED = [
    "SELECT VALUE c.id FROM c ORDER BY RANK RRF(FullTextScore(c.t, 'fox', 'red'), VectorDistance(c.v, [1, 0]))",
    "SELECT TOP 5 * FROM c ORDER BY RANK RRF(VectorDistance(c.v, [1, 0]), FullTextScore(c.t, 'green blue'), [2, 1])",
    "SELECT c.id FROM c WHERE c.n > 3 ORDER BY RANK RRF(FullTextScore(c.t, 'foxes'), FullTextScore(c.g, 'run')) OFFSET 2 LIMIT 9",
    "SELECT TOP 9 c.id FROM c ORDER BY RANK RRF(FullTextScore(c.t, 'run'), FullTextScore(c.t, 'bicycle'), [1, -0.5])",
    "SELECT TOP 9 c.id FROM c ORDER BY RANK RRF(VectorDistance(c.v, [1, 0]), VectorDistance(c.v, [0, 1]), [-1, 0.25])",
]


@pytest.mark.parametrize("text", FUSED)
def test_one_range_answers_what_clients_merge_of_several(text: str, chance: random.Random) -> None:
    for _ in range(25):
        rows = documents(chance)
        ranges: list[list[dict[str, Any]]] = [[], [], []]
        for row in rows:
            chance.choice(ranges).append(row)
        assert run(compile_query(text, {}, DECLARED), rows, Context(0)) == merged(text, ranges)


def test_one_score_by_the_formula(chance: random.Random) -> None:
    for _ in range(50):
        rows = documents(chance)
        phrases = [
            " ".join(chance.choices(VOCABULARY, k=chance.randrange(1, 3))) for _ in range(chance.randrange(1, 4))
        ]
        text = f"SELECT VALUE c.id FROM c WHERE c.n != 1 ORDER BY RANK FullTextScore(c.t, {str(phrases)[1:-1]})"
        scores = bm25({row["id"]: row.get("t") for row in rows}, phrases)
        wanted = [row["id"] for row in rows if row["id"] in scores and row["n"] != 1]
        wanted.sort(key=lambda name: -scores[name])
        assert run(compile_query(text, {}), rows, Context(0)) == wanted


def bm25(texts: dict[str, Any], phrases: list[str]) -> dict[str, float]:
    """The scores of all that is a text, from lists of words."""
    analysed = {name: split_words(text).line.split() for name, text in texts.items() if type(text) is str}
    mean = sum(map(len, analysed.values())) / len(texts)
    found = dict.fromkeys(analysed, 0.0)
    for phrase in phrases:
        wanted = split_words(phrase).line.split()
        times = {name: occurrences(held, wanted) for name, held in analysed.items()}
        having = sum(map(bool, times.values()))
        rarity = math.log1p((len(texts) - having + 0.5) / (having + 0.5))
        for name, count in times.items():
            if count:
                length = len(analysed[name]) / mean
                found[name] += rarity * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * length))
    return {name: round(score, 9) for name, score in found.items()}


def occurrences(held: list[str], wanted: list[str]) -> int:
    """How often a list is in another, without overlaps."""
    count, place = 0, 0
    while wanted and place <= len(held) - len(wanted):
        found = held[place : place + len(wanted)] == wanted
        count += found
        place += len(wanted) if found else 1
    return count


# --- languages -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("language", "text", "has", "has_not"),
    [
        ("en-US", "They were running", "runs", "they"),
        ("de-DE", "Die Häuser der Stadt", "haus", "Dorf"),
        ("de-DE", "das Beispiel", "beispiele", "example"),
        ("es-ES", "las canciones", "canción", "song"),
        ("fr-FR", "une démonstration", "démonstrations", "demo"),
        ("it-IT", "gli esempi", "esempio", "example"),
        ("pt-BR", "os exemplos", "exemplo", "example"),
        ("pt-PT", "os exemplos", "exemplo", "example"),
    ],
)
def test_the_language_that_is_declared(language: str, text: str, has: str, has_not: str) -> None:
    for declared in (Declarations(languages={("in", "t"): language}), Declarations(language=language)):
        for phrase, found in ((has.split(maxsplit=1)[0], True), (has_not.rsplit(maxsplit=1)[-1], False)):
            query = compile_query("SELECT VALUE FullTextContains(c['in'].t, @p) FROM c", {"@p": phrase}, declared)
            assert run(query, [{"in": {"t": text}}], Context(0)) == [found], phrase


def test_stop_words_are_those_of_english_alone() -> None:
    assert {language for language in LANGUAGES if split_words("the", language).size == 0} == {"en-US"}


def test_a_path_goes_by_its_own_language() -> None:
    declared = Declarations(languages={("a",): "de-DE"})
    asked = ", ".join(f"FullTextContains({text}, 'the')" for text in ("c.a", "c.b", "x"))
    text = f"SELECT VALUE [{asked}] FROM c JOIN x IN c.l"
    assert run(compile_query(text, {}, declared), [{"a": "the", "b": "the", "l": ["the"]}], Context(0)) == [
        [True, False, False]
    ]


def test_printing_keeps_rank() -> None:
    for text in (*FUSED, f"SELECT * FROM c ORDER BY RANK {IMAGE}"):
        printed = print_select(parse(text).select)
        assert "\nORDER BY RANK " in printed
        assert print_select(parse(printed).select) == printed
