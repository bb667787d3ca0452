"""Webhooks: expiry events are sent to addresses, in order, each at least once.

A webhook is a node of the catalogue. Its place in the log of expiry events is a named number, and so is the end of the message
that is on its way: a message that is repeated after a restart has the same events and the same id.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from mayflydb.admin import formats
from mayflydb.admin.events import EventStreams
from mayflydb.admin.lifecycle_requests import AddWebhook
from mayflydb.admin.targets import TargetResolver
from mayflydb.admin.webhook_calls import send
from mayflydb.admin.webhook_messages import (
    ATTEMPTS,
    MOST_BYTES,
    MOST_EVENTS,
    Message,
    build_message,
    check_secret,
    check_url,
    encode_secret,
    headers_of,
    wait_after,
)
from mayflydb.clock import monotonic_us, wall_us
from mayflydb.engine.catalog import Definition, Node
from mayflydb.engine.engine import Engine
from mayflydb.engine.reaper import LEASE
from mayflydb.expiry.rules import EventCause
from mayflydb.model.errors import Conflict, MayflyError, NotFound
from mayflydb.model.instant import SECOND, Instant

log = logging.getLogger(__name__)

SPACE: Final = "webhooks"
"""The name of the node above all webhooks."""

MOST_WEBHOOKS: Final = 50
MOST_DEAD_LETTERS: Final = 100

LOOK_SECONDS: Final = 5
"""The longest wait for news: other nodes add webhooks, and write events, without telling this one."""

REST_SECONDS: Final = 0.05
"""The rest after a delivery has begun: writes that follow each other are looked at together."""

Send: TypeAlias = Callable[[str, Mapping[str, str], bytes], Awaitable[str]]
"""Sends a message to an address, with headers; returns an empty text, or the reason why it was not accepted."""


class DeadLetter(msgspec.Struct, frozen=True):
    """Events behind `after` and up to `upto` that were not accepted. `error`: of the last attempt, at `at`."""

    after: int
    upto: int
    events: int
    error: str
    at: Instant


class Webhook(msgspec.Struct, frozen=True, omit_defaults=True):
    """A webhook as it is stored. `causes`: only these; none: any."""

    url: str
    secret: str
    target: str | None = None
    causes: tuple[EventCause, ...] = ()
    dead: tuple[DeadLetter, ...] = ()


class Delivery(msgspec.Struct):
    """The deliveries of a webhook by this process. `next_at`: the host's instant before which nothing is sent."""

    sent: int = 0
    failed: int = 0
    attempts: int = 0
    next_at: Instant = 0
    error: str = ""


class Webhooks:
    """Lists, adds and removes webhooks; `run` sends their messages."""

    def __init__(
        self,
        engine: Engine,
        targets: TargetResolver,
        events: EventStreams,
        draw: Callable[[int], bytes],
        send: Send = send,
    ) -> None:
        """`draw`: random bytes. `send`: posts a message."""
        self._engine = engine
        self._targets = targets
        self._events = events
        self._log = engine.reaper.events
        self._draw = draw
        self._send = send
        self._deliveries: dict[int, Delivery] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._running: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()

    # --- operations --------------------------------------------------------------------------------------------------

    async def list_all(self) -> dict[str, Any]:
        """Return all webhooks, without their secrets, and how far they are."""
        last = await self._engine.last_expiry()
        rows = [await self._describe(node, last) for node in await self._nodes()]
        return {"now": formats.time(await self._engine.now()), "last": last, "webhooks": rows}

    async def add(self, wanted: AddWebhook) -> dict[str, Any]:
        """Add a webhook for the expiries from now on, and return its secret, which is not shown again.

        Errors: BadRequest; Conflict if the name is taken, or if there are too many; NotFound for a target that does not exist.
        """
        await self._targets.list_containers(wanted.target)
        nodes = await self._nodes()
        if len(nodes) >= MOST_WEBHOOKS:
            raise Conflict(f"there are {MOST_WEBHOOKS} webhooks, which is the most")
        if any(node.name == wanted.name for node in nodes):
            raise Conflict(f"there is a webhook {wanted.name} already")
        secret = encode_secret(self._draw(32)) if wanted.secret is None else check_secret(wanted.secret)
        now = await self._engine.now()
        webhook = Webhook(check_url(wanted.url), secret, wanted.target, wanted.causes)
        home = await self._engine.definitions.space(SPACE, now)
        body = msgspec.to_builtins(webhook)
        node = await self._engine.definitions.create(home.id, wanted.name, Definition(body, now))
        await self._place(node, await self._engine.last_expiry())
        self._wake()
        return {"now": formats.time(now), "name": wanted.name, "url": webhook.url, "secret": secret}

    async def remove(self, name: str) -> dict[str, Any]:
        """Remove a webhook. NotFound."""
        node = await self._find(name)
        await self._engine.definitions.drop(node.id)
        self._deliveries.pop(node.id, None)
        self._wake()
        return {"now": formats.time(await self._engine.now()), "name": name}

    async def test(self, name: str) -> dict[str, Any]:
        """Send a message without events, and return the answer of the receiver. NotFound."""
        node = await self._find(name)
        error = await self._post(_webhook_of(node), build_message(node.id, name, (), 0, 0))
        return {"now": formats.time(await self._engine.now()), "name": name, "accepted": not error, "error": error}

    async def retry(self, name: str) -> dict[str, Any]:
        """Send the dead letters of a webhook once more; those that are accepted are gone. NotFound."""
        node = await self._find(name)
        sent = 0
        for letter in _webhook_of(node).dead:
            webhook = _webhook_of(node)
            message = await self._read(node, webhook, letter.after, letter.upto)
            error = "" if message is None else await self._post(webhook, message)
            now = await self._engine.now()
            kept = msgspec.structs.replace(letter, error=error, at=now) if error else None
            await self._change_dead(node.id, letter, kept)
            sent += not error
        left = len(_webhook_of(await self._find(name)).dead)
        return {"now": formats.time(await self._engine.now()), "name": name, "sent": sent, "left": left}

    async def _nodes(self) -> list[Node]:
        home = await self._engine.node(SPACE)
        return [] if home is None else await self._engine.children(home.id)

    async def _find(self, name: str) -> Node:
        node = await self._engine.node(SPACE, name)
        if node is None:
            raise NotFound(f"there is no webhook {name}", hint="`mayfly webhooks list` shows them")
        return node

    async def _describe(self, node: Node, last: int) -> dict[str, Any]:
        webhook, delivery = _webhook_of(node), self._deliveries.get(node.id, Delivery())
        place = await self._place(node, last)
        return {
            "name": node.name,
            "url": webhook.url,
            "target": webhook.target,
            "causes": list(webhook.causes),
            "place": place,
            "waiting": last - place,
            "sent": delivery.sent,
            "failed": delivery.failed,
            "error": delivery.error or None,
            "dead_letters": [
                {"after": each.after, "upto": each.upto, "events": each.events, "error": each.error, "at": formats.time(each.at)}
                for each in webhook.dead
            ],
        }  # fmt: skip

    # --- the loop ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to send messages."""
        self._running = asyncio.create_task(self._run(), name="webhooks")

    async def close(self) -> None:
        """Stop as it is; the next start repeats messages that were not confirmed."""
        tasks = [*self._tasks.values(), *([] if self._running is None else [self._running])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _wake(self) -> None:
        self._changed.set()
        self._engine.reaper.notifier.notify()

    async def _run(self) -> None:
        notifier = self._engine.reaper.notifier
        while not notifier.closed:
            heard, wait, nodes = notifier.notifications, LOOK_SECONDS * SECOND, []
            self._changed.clear()
            try:
                nodes = await self._nodes()
                if nodes and (self._engine.lease is None or await self._engine.lease(SPACE, LEASE)):
                    wait = self._begin_deliveries(nodes, wait)
            except MayflyError as error:
                log.warning("webhooks are looked at again in %d s: %s", LOOK_SECONDS, error)
            # Each write notifies: without webhooks that must cost nothing, and with them little.
            if nodes:
                await notifier.wait(heard, wait)
            await self._pause(REST_SECONDS if nodes else LOOK_SECONDS)

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()

    def _begin_deliveries(self, nodes: Sequence[Node], longest: int) -> int:
        """Begin a delivery for each webhook that has none under way; return the time until the next one may begin."""
        wait = longest
        for node in nodes:
            delivery = self._deliveries.setdefault(node.id, Delivery())
            left = delivery.next_at - monotonic_us()
            if left > 0:
                wait = min(wait, left)
            elif node.id not in self._tasks:
                task = asyncio.create_task(self._deliver(node, delivery), name=f"webhook {node.name}")
                self._tasks[node.id] = task
                task.add_done_callback(lambda _, id=node.id: self._tasks.pop(id, None))  # type: ignore[misc]
        return wait

    async def _deliver(self, node: Node, delivery: Delivery) -> None:
        """Send messages of a webhook until none is left, or one is not accepted."""
        try:
            while await self._deliver_one(node, delivery):
                pass
        except MayflyError as error:
            log.warning("the webhook %s waits: %s", node.name, error)
            delivery.next_at = monotonic_us() + LOOK_SECONDS * SECOND
        if delivery.error:
            # The loop may sleep for longer than until the next attempt.
            asyncio.get_running_loop().call_soon(self._wake)

    async def _deliver_one(self, node: Node, delivery: Delivery) -> bool:
        """Send the next message of a webhook. False: there is none, or it was not accepted."""
        webhook = _webhook_of(node)
        last = await self._engine.last_expiry()
        place = await self._place(node, last)
        if place >= last:
            return False
        end = await self._log.place(_end_name(node.id)) or 0
        message = await self._read(node, webhook, place, end if end > place else None)
        if message is None:
            # No event up to there is one of this webhook.
            await self._log.set_place(_place_name(node.id), end if end > place else last)
            return end > place
        if end <= place:
            await self._log.set_place(_end_name(node.id), message.upto)
        error = await self._post(webhook, message)
        if error:
            await self._note_failure(node, delivery, message, error)
            return False
        delivery.sent, delivery.attempts, delivery.error = delivery.sent + 1, 0, ""
        await self._log.set_place(_place_name(node.id), message.upto)
        return True

    async def _note_failure(self, node: Node, delivery: Delivery, message: Message, error: str) -> None:
        delivery.failed, delivery.attempts, delivery.error = delivery.failed + 1, delivery.attempts + 1, error
        if delivery.attempts < ATTEMPTS:
            wait = wait_after(delivery.attempts, self._draw(1)[0] / 255)
            delivery.next_at = monotonic_us() + int(wait * SECOND)
            log.warning(
                "the webhook %s did not accept message %s, next in %.0f s: %s", node.name, message.id, wait, error
            )
            return
        delivery.attempts = 0
        letter = DeadLetter(message.after, message.upto, message.events, error, await self._engine.now())
        await self._change_dead(node.id, None, letter)
        await self._log.set_place(_place_name(node.id), message.upto)
        log.error("the webhook %s has a dead letter of %d events: %s", node.name, message.events, error)

    async def _post(self, webhook: Webhook, message: Message) -> str:
        headers = headers_of(message, webhook.secret, wall_us() // SECOND)
        return await self._send(webhook.url, headers, message.body)

    # --- events and places -------------------------------------------------------------------------------------------

    async def _read(self, node: Node, webhook: Webhook, after: int, end: int | None) -> Message | None:
        """Read the events of the next message; None: there are none. `end`: the last event of a message that is repeated."""
        found: list[Mapping[str, Any]] = []
        size, upto = 0, after
        async for event in self._events.read(after, webhook.target):
            seq = event.seq or 0
            if (end is not None and seq > end) or (end is None and (len(found) >= MOST_EVENTS or size >= MOST_BYTES)):
                break
            is_wanted = event.type == "expired" and (not webhook.causes or event.data["reason"] in webhook.causes)
            if is_wanted or event.type == "lost":
                found.append({"type": event.type, **event.data})
                size += len(msgspec.json.encode(event.data))
                upto = seq
        return build_message(node.id, node.name, found, after, end or upto) if found else None

    async def _place(self, node: Node, last: int) -> int:
        """Return the number of the last event that is done; `last`, the last one of all, for a webhook that is new here.

        In a store that was copied or reset the numbers of events have begun anew.
        """
        place = await self._log.place(_place_name(node.id))
        if place is None or place > last:
            await self._log.set_place(_place_name(node.id), last)
            return last
        return place

    async def _change_dead(self, id: int, before: DeadLetter | None, after: DeadLetter | None) -> None:
        """Put one dead letter in the place of another; None: there is none."""

        def change(definition: Definition) -> Definition:
            webhook = msgspec.convert(definition.body, Webhook)
            dead = [
                each
                for each in webhook.dead
                if before is None or (each.after, each.upto) != (before.after, before.upto)
            ]
            dead += [] if after is None else [after]
            # The oldest go first: their events are no longer kept soonest.
            kept = msgspec.structs.replace(webhook, dead=tuple(dead[-MOST_DEAD_LETTERS:]))
            return msgspec.structs.replace(definition, body=msgspec.to_builtins(kept))

        await self._engine.definitions.adjust(id, change)


def _webhook_of(node: Node) -> Webhook:
    return msgspec.convert(node.body, Webhook)


def _place_name(id: int) -> str:
    return f"webhook {id} place"


def _end_name(id: int) -> str:
    return f"webhook {id} end"
