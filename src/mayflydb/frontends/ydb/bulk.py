"""Writes that read nothing before: the writer decides them in one transaction, without a snapshot."""

from __future__ import annotations

from collections.abc import Sequence

from mayflydb.engine.commands import Command
from mayflydb.engine.engine import Engine
from mayflydb.engine.reads import Steps
from mayflydb.engine.transactions import WriteTransaction
from mayflydb.frontends.ydb.crossing import ON_LOOP, Crossing
from mayflydb.frontends.ydb.rows import RowLayout
from mayflydb.frontends.ydb.verbs import BATCH_ROWS, GivenRows, batches, command_factory, key_conflict, keyed_rows
from mayflydb.model.errors import Conflict, NotFound, OwnerNotFound
from mayflydb.model.instant import Instant
from mayflydb.query.yql.schemas import Effect


async def build_commands(layout: RowLayout, effect: Effect, crossing: Crossing = ON_LOOP) -> list[Command]:
    """Return the commands of an effect, one for each row, for every verb but UPDATE.

    PRECONDITION_FAILED if an INSERT names a key twice.
    """
    rows = GivenRows(layout, effect.columns, effect.generated)
    command = command_factory(effect, rows)
    commands: list[Command] = []
    for batch in batches(await keyed_rows(effect, rows, crossing)):
        commands += [command(key, row) for key, row in batch]
        if len(batch) == BATCH_ROWS:
            await crossing.take_turn()
    return commands


async def write_effects(
    engine: Engine,
    effects: Sequence[tuple[RowLayout, Effect]],
    now: Instant,
    crossing: Crossing = ON_LOOP,
    author: str = "",
) -> None:
    """Apply all effects in order, or none. Errors: PRECONDITION_FAILED for a taken unique key, OwnerNotFound.

    `crossing`: gives turns before the decision. `author`: the user whose writes these are.

    WriteConflict if the definition of a table has changed, or if a hidden row is in the way that an open transaction
    may have updated.
    """
    commands_by_table = [
        (layout.view.node.id, effect, await build_commands(layout, effect, crossing)) for layout, effect in effects
    ]

    def decide(transaction: WriteTransaction) -> Steps[None]:
        transaction.author = author
        for container, effect, commands in commands_by_table:
            space = yield from transaction.on(container)
            for command in commands:
                if effect.ignore_existing and (yield from space.get(command.partition, command.key)) is not None:
                    continue
                try:
                    yield from space.run(command)
                except Conflict:
                    raise key_conflict(effect) from None
                # OwnerNotFound is a NotFound as well: a dropped table is an error.
                except OwnerNotFound:
                    raise
                except NotFound:
                    pass  # A DELETE of a missing row has nothing to do.

    size = sum(len(commands) for _, _, commands in commands_by_table)
    # YDB answers ABORTED where the engine would wait for a lock, and its clients repeat the query.
    await engine.transact(decide, now, waits=False, size=size)
