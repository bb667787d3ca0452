"""The chain of the erasure log: every tampering is found, and what is not tampered with is never doubted."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

import msgspec
import pytest

from mayflydb.expiry.erasure_chain import (
    NOTHING,
    Head,
    Line,
    Tampered,
    Verifier,
    chain,
    describe_erased,
    hash_key,
    hash_line,
)
from mayflydb.model.instant import DAY, LAST_INSTANT
from mayflydb.model.record import Expiry

SECRET = b"s" * 32
START = Line(0, "start", "2030-01-01T00:00:00Z", 7, "")


def event(number: int, deadline: int = 1000 * DAY) -> Expiry:
    return Expiry(number, 3, b"p", b"k%d" % number, 1, 2, 0, None, "default", 1, deadline, 1000 * DAY, "sweep")


def lines_of(numbers: Iterable[int], head: Head) -> tuple[list[bytes], Head]:
    return chain(head, [describe_erased(event(number), ("cosmos", "shop", "sessions"), SECRET) for number in numbers])


def build(number: int) -> tuple[list[bytes], Head]:
    first, head = chain(Head(), [START])
    rest, head = lines_of(range(8, 8 + number), head)
    return first + rest, head


def verify(lines: Iterable[bytes], head: Head, noted: Iterable[Head] = ()) -> None:
    verifier = Verifier(noted)
    for line in lines:
        verifier.add(line)
    verifier.finish(head)


def test_a_line_tells_of_an_event_and_hides_its_key() -> None:
    lines, head = build(1)
    assert msgspec.json.decode(lines[1]) == {
        "n": 2, "kind": "erased", "at": "1972-09-27T00:00:00Z", "event": 8, "prev": hash_line(lines[0]), "container": 3,
        "path": ["cosmos", "shop", "sessions"], "key": hash_key(SECRET, 3, b"p", b"k8"), "cause": "default", "rule": 1,
        "deadline": "1972-09-27T00:00:00Z", "how": "sweep",
    }  # fmt: skip
    assert b"k8" not in lines[1]
    assert head == Head(2, hash_line(lines[1]))


def test_names_and_instants_beyond_text_have_their_line() -> None:
    line = describe_erased(event(1, LAST_INSTANT + 1), ("half \ud800",), SECRET)
    assert (line.deadline, line.path) == ("after 9999", ("half \ufffd\ufffd\ufffd",))
    chain(Head(), [line])


def test_keys_are_told_apart() -> None:
    """By container, partition and key, wherever one ends and the other begins."""
    found = {
        hash_key(secret, container, partition, key)
        for secret in (SECRET, b"t" * 32)
        for container in (1, 11)
        for partition, key in ((b"", b"ab"), (b"a", b"b"), (b"ab", b""))
    }
    assert len(found) == 12


@pytest.mark.parametrize("number", [0, 1, 300])
def test_a_chain_holds(number: int) -> None:
    lines, head = build(number)
    verify(lines, head)
    verify(lines, head, [Head(), head, Head(1, hash_line(lines[0]))])


def test_a_gap_a_move_and_a_scrub_are_lines_of_a_chain() -> None:
    lines, head = build(2)
    more, head = chain(
        head,
        [
            Line(0, "scrubbed", "t", 9, ""),
            Line(0, "gap", "t", 20, "", after=12),
            describe_erased(event(21), (), SECRET),
            msgspec.structs.replace(START, event=0),
            describe_erased(event(1), (), SECRET),
        ],
    )
    verify(lines + more, head)


Change = Callable[[random.Random, list[bytes]], None]


def change_a_byte(chance: random.Random, lines: list[bytes]) -> None:
    n = chance.randrange(len(lines))
    line = bytearray(lines[n])
    line[chance.randrange(len(line))] ^= 1 << chance.randrange(8)
    lines[n] = bytes(line)


def change_a_member(chance: random.Random, lines: list[bytes]) -> None:
    n = chance.randrange(1, len(lines))
    members = msgspec.json.decode(lines[n])
    name = chance.choice(["at", "key", "cause", "deadline", "how", "path", "container", "rule", "event"])
    members[name] = {str: "x", int: 10**6, list: ["x"]}[type(members[name])]
    lines[n] = msgspec.json.encode(members)


def respace(chance: random.Random, lines: list[bytes]) -> None:
    n = chance.randrange(len(lines))
    lines[n] = lines[n].replace(b",", b", ", 1)


def remove(chance: random.Random, lines: list[bytes]) -> None:
    start = chance.randrange(len(lines))
    del lines[start : start + chance.randint(1, 5)]


def cut_the_end(chance: random.Random, lines: list[bytes]) -> None:
    del lines[-chance.randint(1, len(lines)) :]


def repeat(chance: random.Random, lines: list[bytes]) -> None:
    lines.insert(chance.randint(0, len(lines)), chance.choice(lines))


def insert(chance: random.Random, lines: list[bytes]) -> None:
    n = chance.randint(1, len(lines))
    before = Head(n, hash_line(lines[n - 1]))
    lines[n:n] = lines_of([10**6], before)[0]


def swap(chance: random.Random, lines: list[bytes]) -> None:
    a, b = chance.sample(range(len(lines)), 2)
    lines[a], lines[b] = lines[b], lines[a]


def rewrite_the_rest(chance: random.Random, lines: list[bytes]) -> None:
    """A chain that holds by itself, from some line on; only the head tells."""
    n = chance.randint(1, len(lines) - 1)
    lines[n:] = lines_of(range(500, 500 + len(lines) - n), Head(n, hash_line(lines[n - 1])))[0]


@pytest.mark.parametrize(
    "change",
    [change_a_byte, change_a_member, respace, remove, cut_the_end, repeat, insert, swap, rewrite_the_rest],
    ids=lambda change: change.__name__,
)
def test_every_tampering_is_found(change: Change, seed: int) -> None:
    chance = random.Random(f"{seed} {change.__name__}")
    for _ in range(150):
        lines, head = build(chance.randint(2, 12))
        changed = [*lines]
        change(chance, changed)
        if changed == lines:
            continue
        with pytest.raises(Tampered):
            verify(changed, head)


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([Line(0, "erased", "t", 8, "")], "does not begin"),
        ([START, Line(0, "erased", "t", 7, "")], "out of order"),
        ([START, Line(0, "gap", "t", 9, "", after=6)], "out of order"),
        ([START, Line(0, "scrubbed", "t", 6, ""), Line(0, "scrubbed", "t", 6, "")], "out of order"),
    ],
)
def test_lines_that_contradict_each_other_are_found(lines: list[Line], reason: str) -> None:
    encoded, head = chain(Head(), lines)
    with pytest.raises(Tampered, match=reason):
        verify(encoded, head)


def test_a_log_that_was_written_anew_is_found_by_a_noted_head() -> None:
    """A person who can write the store can write a chain that holds; a head that was noted elsewhere tells it apart."""
    lines, head = build(5)
    forged, forged_head = chain(Head(), [msgspec.structs.replace(START, at="earlier")])
    more, forged_head = lines_of(range(8, 13), forged_head)
    verify(forged + more, forged_head)
    with pytest.raises(Tampered, match="noted earlier"):
        verify(forged + more, forged_head, [head])
    with pytest.raises(Tampered, match="noted earlier"):
        verify(lines[:3], Head(3, hash_line(lines[2])), [head])
    with pytest.raises(Tampered, match="noted earlier"):
        verify(lines, head, [Head(0, "1" * 64)])
    assert Head().hash == NOTHING
