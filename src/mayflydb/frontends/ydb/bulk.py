"""Writes that need not read: decided in one go inside the writer, without a transaction of their own before."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from mayflydb.engine.commands import Command, Mode
from mayflydb.engine.engine import Engine
from mayflydb.engine.transactions import Transaction
from mayflydb.frontends.ydb.reading import conflict
from mayflydb.frontends.ydb.rows import Layout, partition_of
from mayflydb.frontends.ydb.writing import EXISTS, TWICE, Rows
from mayflydb.model.errors import Conflict, NotFound, OwnerNotFound
from mayflydb.model.instant import Instant
from mayflydb.query.yql.schemas import Effect
from mayflydb.store.interface import Read


def commands_of(layout: Layout, effect: Effect) -> list[Command]:
    """What an effect comes to, row by row, but for UPDATE. PRECONDITION_FAILED for an INSERT of one key twice."""
    rows = Rows(layout, effect.columns, effect.generated)
    commands: list[Command] = []
    inserted: set[bytes] = set()
    for row in effect.rows:
        key = rows.key_of(row)
        partition = partition_of(key)
        if effect.verb == "INSERT":
            if key in inserted:
                if effect.ignore_existing:
                    continue
                raise conflict(effect.table, TWICE)
            inserted.add(key)
            commands.append(Command(Mode.CREATE, partition, key, layout.draft(rows.new(row), key)))
            continue
        if effect.verb == "DELETE":
            commands.append(Command(Mode.DELETE, partition, key))
        elif effect.verb == "REPLACE" or rows.whole:
            commands.append(Command(Mode.UPSERT, partition, key, layout.draft(rows.new(row), key)))
        else:
            commands.append(Command(Mode.UPSERT, partition, key, rows.merge(row, key)))
    return commands


async def write(engine: Engine, effects: Sequence[tuple[Layout, Effect]], now: Instant) -> None:
    """All of them, one after the other, or none. Errors: PRECONDITION_FAILED for a unique key that is taken, OwnerNotFound.

    WriteConflict if a table is another by now, or a hidden row is in the way which an open transaction may have saved.
    """
    meant = [(layout.view.node.id, effect, commands_of(layout, effect)) for layout, effect in effects]

    def body(transaction: Transaction) -> Generator[Read[Any], Any, None]:
        for container, effect, commands in meant:
            space = yield from transaction.on(container)
            for command in commands:
                if effect.ignore_existing and (yield from space.get(command.partition, command.key)) is not None:
                    continue
                try:
                    yield from space.run(command)
                except Conflict:
                    raise conflict(effect.table, EXISTS) from None
                except OwnerNotFound:
                    raise
                except NotFound:
                    pass  # A row that is not there is deleted already.

    await engine.transact(body, now, waits=False)
