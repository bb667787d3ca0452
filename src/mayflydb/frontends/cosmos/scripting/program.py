"""Runs one script. The script queues operations and returns; then each operation is run and its callback called.

A callback may queue further operations. The script ends when the queue is empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from mayflydb.engine.catalog import Node
from mayflydb.frontends.cosmos.scripting.collection import Collection
from mayflydb.frontends.cosmos.scripting.sandbox import Sandbox, TimeBudget, decode_answer
from mayflydb.frontends.cosmos.scripting.transaction import ScriptTransaction
from mayflydb.model.errors import MayflyError
from mayflydb.model.instant import MILLISECOND


class ScriptContext(msgspec.Struct):
    """The input of a script: `mode` (stored procedure or kind of trigger), JSON of the request and response, headers by name."""

    mode: Literal["sproc", "pre", "post"]
    request: msgspec.Raw
    response: msgspec.Raw = msgspec.Raw(b'""')
    operation: str = ""
    headers: Mapping[str, str] = {}
    logs: bool = False


class ScriptResult(msgspec.Struct):
    """The result of a script: the bodies that it has set as JSON (None: not set), and its log."""

    request: str | None = None
    response: str | None = None
    log: str = ""


class Program:
    """A script in its own sandbox. Both belong to the thread that creates them."""

    def __init__(
        self,
        script: Node,
        context: ScriptContext,
        arguments: list[Any],
        transaction: ScriptTransaction,
        time_budget: TimeBudget,
    ) -> None:
        self._sandbox = Sandbox(time_budget)
        self._setup = _build_setup(script, context, transaction, time_budget)
        self._arguments = arguments

    async def run(self, collection: Collection) -> ScriptResult:
        """Run the script to its end. The errors are those of `Sandbox`, with the `log` in their detail."""
        sandbox = self._sandbox
        try:
            sandbox("define", self._setup)
            sandbox("run", self._arguments)
            while wanted := sandbox("next"):
                sandbox("reply", msgspec.Raw(await collection.run_operation(wanted)))
        except MayflyError as error:
            error.detail = {**error.detail, "log": sandbox.log}
            raise
        left = decode_answer(sandbox("outcome"), ScriptResult)
        return msgspec.structs.replace(left, log=sandbox.log)


def _build_setup(
    script: Node, context: ScriptContext, transaction: ScriptTransaction, time_budget: TimeBudget
) -> dict[str, Any]:
    view, limits = transaction.view, time_budget.limits
    return {
        "script": script.body["body"],
        "mode": context.mode,
        "operation": context.operation,
        "request": context.request,
        "response": context.response,
        "headers": context.headers,
        "now": transaction.now // MILLISECOND,
        "selfLink": view.links.self_link,
        "altLink": f"dbs/{view.database}/colls/{view.node.name}",
        "logs": context.logs,
        # Milliseconds until the last part of the time begins, in which no operation is accepted.
        "patience": time_budget.seconds_left * 1000 - limits.seconds * 1000 * (1 - limits.accepting),
        "mostBody": limits.body,
        "mostLog": limits.log,
    }
