"""Caches of queries: their number and size are bounded, and the latest query is always kept."""

from __future__ import annotations

import pytest

from mayflydb.frontends.ydb.query_cache import MAX_CACHED_LENGTH, LruCache, QueryCache
from mayflydb.query.yql.statements import Script


@pytest.mark.parametrize(
    ("sizes", "kept"),
    [
        ((1, 1, 1), "abc"),
        ((1, 1, 1, 1), "bcd"),
        ((4, 4, 4), "bc"),
        ((4, 4, 9), "c"),
        ((11,), "a"),
        ((11, 1), "b"),
        ((1, 11), "b"),
    ],
)
def test_those_asked_for_last_are_kept_as_far_as_there_is_room(sizes: tuple[int, ...], kept: str) -> None:
    recent: LruCache[str, str] = LruCache(max_count=3, max_size=10)
    for name, size in zip("abcd", sizes, strict=False):
        recent.put(name, name, size)
    assert "".join(filter(None, map(recent.get, "abcd"))) == kept


def test_what_is_put_again_counts_once() -> None:
    recent: LruCache[str, int] = LruCache(max_count=3, max_size=10)
    recent.put("a", 1, 3)
    for size in (9, 9, 5):
        recent.put("b", size, size)
    recent.put("c", 3, 5)
    assert [recent.get(name) for name in "abc"] == [None, 5, 3]


def test_large_texts_do_not_pile_up() -> None:
    texts = QueryCache()
    for number in range(5):
        texts.trees.put(f"SELECT {number}", Script(()), MAX_CACHED_LENGTH // 3 + 1)
    assert len(texts.trees) == 2
