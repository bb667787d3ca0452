"""A copy goes on with its archives where the original was."""

from __future__ import annotations

import msgspec

from mayflydb.clock import VirtualClock
from mayflydb.engine.catalog import Definition
from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.engine.lifecycle.archive_ledger import SPACE
from mayflydb.engine.open import open_engine
from mayflydb.expiry.lifecycle import Lifecycle
from mayflydb.expiry.rules import default_rule
from mayflydb.expiry.sweep import PurgeRequest
from mayflydb.model.instant import SECOND
from mayflydb.moving.copy import copy
from mayflydb.moving.source import StoreSource
from mayflydb.store.sqlite import SqliteStore
from moving.conftest import Run
from store_suite.contract import Contract
from store_suite.reference import ReferenceStore


def with_archive(lifecycle: Lifecycle) -> Lifecycle:
    return msgspec.structs.replace(lifecycle, archive="cold", last_image=10**6)


def test_a_copy_archives_what_the_original_has_not(run: Run, tmp_path: object) -> None:
    async def check() -> None:
        source, target = Contract(ReferenceStore()), await SqliteStore.open(f"{tmp_path}/copy.db")
        clock = VirtualClock(1_000 * SECOND)
        engine = await open_engine(source, clock)
        home = await engine.definitions.space(SPACE, clock.now())
        await engine.definitions.create(home.id, "cold", Definition({}, clock.now()))
        site = await engine.definitions.space("site", clock.now())
        definition = Definition({}, clock.now(), rules=(default_rule(10),))
        it = (await engine.definitions.create(site.id, "it", definition)).id
        await engine.definitions.change_lifecycle(it, with_archive, clock.now())
        for turn in range(2):
            await engine.write(it, Command(Mode.CREATE, b"p", b"%d" % turn, Draft(b"v")), clock.now())
            clock.set(clock.now() + 20 * SECOND)
            await engine.reaper.sweep_due(PurgeRequest(clock.now(), clock.now(), "sweep"))
            versions = await engine.archive_backlog.home_of(it)
            assert versions is not None
            if not turn:
                batch = await engine.archive_backlog.next_batch(versions, "target")
                assert batch is not None and await engine.archive_backlog.finish(versions, batch)
        await copy(await StoreSource.open(source), target, lambda done, total: None)
        copied = await open_engine(target, VirtualClock(clock.now()))
        (found,) = await copied.archive_backlog.homes()
        batch = await copied.archive_backlog.next_batch(found, "target")
        assert batch is not None
        # Both are kept for readers of their events; the second alone waits.
        assert [version.record.key for version in batch.versions] == [b"1"]
        for each in (engine, copied):
            each.evaluators.close()
            await each.indexes.close()
            await each.store.close()

    run(check())
