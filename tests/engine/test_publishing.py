"""Publishing: a front end is told of each change of a record once, in the transaction that makes it, on every store."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from engine.site import Site, command, delete, draft, partition_of
from mayflydb.engine.catalog import Definition, Node
from mayflydb.engine.commands import Command, Mode, RecordChange
from mayflydb.engine.snapshot import Snapshot
from mayflydb.engine.transactions import WriteTransaction
from mayflydb.expiry.sweep import PurgeRequest
from mayflydb.model.errors import MayflyError, NotFound, Unavailable, WriteConflict
from mayflydb.model.record import Kind
from mayflydb.store.interface import Decision, Expiries, Outcome

STEPS = 120


class Diary:
    """A publisher that writes a record of each change: `kind|key|before|after|remembered|author`, by number."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.pages = site.container("diary")
        site.engine.reaper.publications.publishers = {"site": lambda: self}
        site.run(site.engine.definitions.replace(site.it, _with_publisher, site.now))

    def publish(
        self, transaction: WriteTransaction, node: Node, changes: Sequence[RecordChange]
    ) -> Generator[Any, Any, None]:
        pages = yield from transaction.on(self.pages)
        for each in changes:
            counter = yield from pages.get(partition_of(b"n"), b"n")
            number = 0 if counter is None else int(counter.value)
            record = each.after or each.before
            assert record is not None
            before, after = (b"" if part is None else part.value for part in (each.before, each.after))
            note = each.remembered or b""
            text = b"|".join((each.kind.value.encode(), record.key, before, after, note, transaction.author.encode()))
            key = b"%06d" % number
            yield from pages.run(Command(Mode.CREATE, partition_of(key), key, draft(key, text)))
            yield from pages.run(Command(Mode.UPSERT, partition_of(b"n"), b"n", draft(b"n", b"%d" % (number + 1))))

    def read(self) -> list[tuple[str, ...]]:
        found = self.site.values(self.pages)
        return [tuple(found[key].decode().split("|")) for key in sorted(found) if key != b"n"]

    def check(self) -> None:
        """What was told leads to what is visible or hidden, and each expiry event was told once."""
        state: dict[str, str] = {}
        expired: Counter[str] = Counter()
        for kind, key, before, after, *_ in self.read():
            assert state.get(key, "") == before, f"{kind} of {key}"
            if kind in ("delete", "expire"):
                del state[key]
                expired[key] += kind == "expire"
            else:
                assert (kind == "create") == (key not in state)
                state[key] = after
        stored = self.site.run(self.site.engine.read_stored(self.site.it, None, 1000))
        assert state == {record.key.decode(): record.value.decode() for record in stored}
        events = self.site.run(self.site.engine.store.read(Expiries(self.site.it, 0, 10_000)))
        assert expired == Counter(event.key.decode() for event in events)


def _with_publisher(node: Node) -> Definition:
    return msgspec.structs.replace(node.definition, publisher="site")


def sweep(site: Site) -> None:
    request = PurgeRequest(site.now, site.now, "run now", override="all")
    site.run(site.engine.reaper.sweep_due(request))


def play(site: Site, chance: random.Random) -> None:
    key, value = b"%d" % chance.randrange(8), b"v%d" % chance.randrange(1000)

    def remove() -> None:
        with suppress(NotFound):
            site.write(delete(key))

    def together() -> None:
        """Several changes in one transaction, some of one record."""
        commands = [
            command(Mode.UPSERT, b"%d" % chance.randrange(8), b"w%d" % n, chance.choice((None, 4))) for n in range(3)
        ]
        site.run(site.engine.write_all(site.it, commands, site.now))

    def several_statements() -> None:
        snapshot = site.run(Snapshot.begin(site.engine, site.now, [site.home]))
        with suppress(MayflyError):
            site.run(snapshot.run(site.it, command(Mode.UPSERT, key, value, chance.choice((None, 4)))))
            if chance.random() < 0.7:
                site.run(snapshot.commit(site.now))
        snapshot.close()

    choices: list[Callable[[], Any]] = [
        lambda: site.write(command(Mode.UPSERT, key, value, chance.choice((None, 3, 9)))),
        remove,
        together,
        several_statements,
        lambda: site.pass_seconds(chance.randrange(6)),
        lambda: sweep(site),
    ]
    chance.choices(choices, [5, 1, 2, 2, 3, 2])[0]()


def test_all_changes_are_told(site: Site, seed: int) -> None:
    diary, chance = Diary(site), random.Random(seed)
    for _ in range(STEPS):
        play(site, chance)
        diary.check()
    site.pass_seconds(100)
    sweep(site)
    diary.check()


def test_all_changes_are_told_by_decisions_that_run_twice(
    site: Site, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    diary, chance = Diary(site), random.Random(seed)
    write = site.engine.store.write

    def write_again(decide: Callable[[], Decision[Any]], *urgency: Any) -> Any:
        def twice() -> Decision[Any]:
            yield from decide()
            outcome: Outcome[Any] = yield from decide()
            return outcome

        return write(twice, *urgency)

    monkeypatch.setattr(site.engine.store, "write", write_again, raising=False)
    for _ in range(STEPS // 2):
        play(site, chance)
        diary.check()


def test_what_is_told(site: Site) -> None:
    diary = Diary(site)
    site.write(Command(Mode.CREATE, partition_of(b"a"), b"a", draft(b"a", b"1", 5, remembered=b"note")))
    site.write(command(Mode.REPLACE, b"a", b"2", 5))
    site.pass_seconds(5)
    # The create makes room, so it ends the hidden record first.
    site.write(command(Mode.CREATE, b"a", b"3"))

    def body(transaction: WriteTransaction) -> Generator[Any, Any, None]:
        transaction.author = "root"
        space = yield from transaction.on(site.it)
        yield from space.run(delete(b"a"))

    site.run(site.engine.transact(body, site.now))
    assert diary.read() == [
        (Kind.CREATE.value, "a", "", "1", "note", ""),
        (Kind.REPLACE.value, "a", "1", "2", "", ""),
        (Kind.EXPIRE.value, "a", "2", "", "", ""),
        (Kind.CREATE.value, "a", "", "3", "", ""),
        (Kind.DELETE.value, "a", "3", "", "", "root"),
    ]


def test_a_refused_write_tells_nothing(site: Site) -> None:
    diary = Diary(site)
    site.write(command(Mode.CREATE, b"a", b"1"))
    before = diary.read()
    with pytest.raises(MayflyError):
        site.write(command(Mode.CREATE, b"a", b"2"))
    assert diary.read() == before


def test_a_transaction_tells_at_its_commit(site: Site) -> None:
    diary = Diary(site)
    snapshot = site.run(Snapshot.begin(site.engine, site.now, [site.home], serializable=True))
    snapshot.author = "one"
    site.run(snapshot.run(site.it, command(Mode.UPSERT, b"a", b"1")))
    assert diary.read() == []
    site.write(command(Mode.UPSERT, b"b", b"2"))
    site.run(snapshot.commit(site.now))
    snapshot.close()
    assert [(row[1], row[5]) for row in diary.read()] == [("b", ""), ("a", "one")]


def test_a_transaction_that_fails_tells_nothing(site: Site) -> None:
    diary = Diary(site)
    snapshot = site.run(Snapshot.begin(site.engine, site.now, [site.home], serializable=True))
    site.run(snapshot.get(site.it, partition_of(b"a"), b"a"))
    site.run(snapshot.run(site.it, command(Mode.UPSERT, b"c", b"1")))
    site.write(command(Mode.UPSERT, b"a", b"2"))
    with pytest.raises(WriteConflict):
        site.run(snapshot.commit(site.now))
    snapshot.close()
    assert [row[1] for row in diary.read()] == ["a"]


def test_bodies_of_a_transaction_are_decided_with_its_commit(site: Site) -> None:
    other = site.container("other")
    for commits in (False, True):
        snapshot = site.run(Snapshot.begin(site.engine, site.now, [site.home]))

        def body(transaction: WriteTransaction) -> Generator[Any, Any, None]:
            space = yield from transaction.on(other)
            yield from space.run(command(Mode.UPSERT, b"x", b"1"))

        snapshot.add_body(body, 10)
        if commits:
            site.run(snapshot.commit(site.now))
        snapshot.close()
        assert (b"x" in site.values(other)) is commits


def test_nothing_changes_before_the_publisher_is_there(site: Site) -> None:
    diary = Diary(site)
    site.write(command(Mode.CREATE, b"a", b"1", 5))
    site.engine.reaper.publications.publishers = {}
    with pytest.raises(Unavailable):
        site.write(command(Mode.CREATE, b"b", b"1"))
    site.pass_seconds(5)
    sweep(site)
    assert len(site.run(site.engine.read_stored(site.it, None, 10))) == 1
    site.engine.reaper.publications.publishers = {"site": lambda: diary}
    sweep(site)
    assert [row[0] for row in diary.read()] == ["create", "expire"]
