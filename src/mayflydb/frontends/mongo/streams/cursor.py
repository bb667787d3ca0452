"""The cursor of a change stream, which stays open while there are no events."""

from __future__ import annotations

from collections import deque

from mayflydb.engine.ordered_histories import ChangeNotifier
from mayflydb.frontends.mongo.cursors import Cursor, ReadTime, no_results
from mayflydb.frontends.mongo.documents import MAX_DOCUMENT_BYTES
from mayflydb.frontends.mongo.streams.events import EventBuilder, event_head
from mayflydb.frontends.mongo.streams.feed import Feed, lost_history_error
from mayflydb.frontends.mongo.streams.tokens import ResumeToken
from mayflydb.model.instant import Instant
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.stages import Pipeline
from mayflydb.query.mongo.stages.base import one_batch
from mayflydb.query.mongo.values import Document, encode


class StreamCursor(Cursor):
    """Events of committed changes.

    `cheap`: the pipeline is cheap. `last_token`: the token of an event that only the invalidation can follow.
    """

    def __init__(
        self,
        namespace: str,
        feed: Feed,
        builder: EventBuilder,
        pipeline: Pipeline | None,
        cheap: bool,
        session: bytes | None,
        notifier: ChangeNotifier,
        read_time: ReadTime,
        last_token: ResumeToken | None = None,
    ) -> None:
        super().__init__(namespace, no_results(), read_time, lambda: (), 0, session)
        self.awaits_data = True
        self._notifier = notifier
        self._feed = feed
        self._builder = builder
        self._pipeline = pipeline
        self._cheap = cheap
        self._events: deque[tuple[bytes, Document]] = deque()
        self._token = feed.build_token("idle").document
        self._fault: MqlError | None = None
        self._done = False
        self._closed = False
        if last_token is not None:
            self._token = last_token.document
            self._invalidate_at_once(feed.last_instant)

    def build_undone_error(self) -> MqlError:
        return lost_history_error()

    @property
    def exhausted(self) -> bool:
        return self._closed or (self._done and not self._events)

    @property
    def reply_fields(self) -> Document:
        return {"postBatchResumeToken": self._token}

    async def next_batch(self, size: int | None, now: Instant) -> list[bytes]:
        found: list[bytes] = []
        total = 0
        while size is None or len(found) < size:
            if not self._events and not await self._read_lines(now):
                break
            if self._events and found and total + len(self._events[0][0]) + 16 > MAX_DOCUMENT_BYTES:
                break
            if self._events:
                raw, self._token = self._events.popleft()
                found.append(raw)
                total += len(raw) + 16
        if not self._events and not self._done and self._fault is None:
            # The token moves on even without events: resumed there, a stream does not read again what it did not show.
            self._token = self._feed.build_token("idle").document if not found else self._token
        return found

    async def _read_lines(self, now: Instant) -> bool:
        """Read lines of the histories, and append their events to `_events`. Return True if there were lines."""
        if self._done or self._closed:
            return False
        if self._fault is not None:
            raise self._fault
        lines = await self._feed.read_lines(now)
        for line in lines:
            # A line of before the start, or a gap.
            if not self._feed.advance(line):
                continue
            try:
                event = await self._builder.build(line, now)
                if event is None:
                    continue
                last = self._builder.invalidates(event)
                token = self._feed.build_token("last" if last else "event").document
                await self._add_event({"_id": token, **event}, len(line.value))
            except MqlError as error:
                self._fail(error)
                return bool(self._events)
            if last:
                await self._add_invalidation(line.version.written)
                return True
        return bool(lines)

    def _fail(self, error: MqlError) -> None:
        # Earlier events are returned before the error.
        self._fault = error
        if not self._events:
            raise error

    async def _add_event(self, event: Document, size: int = 0) -> None:
        shown = event
        if self._pipeline is not None:
            # One event is small, and most pipelines of streams only select.
            self.read_time.evaluation.taken = size
            batches = self._pipeline.run_over(one_batch([event]))
            steps = self.read_time.evaluation.iterate(batches, self._cheap)
            out = [each async for batch in steps for each in batch]
            if not out:
                return
            shown = out[0]
        # The client would store the changed token, and could not resume by it.
        if shown.get("_id") != event["_id"]:
            text = (
                "Encountered an event whose _id field, which contains the resume token, was modified by the pipeline."
            )
            raise MqlError(280, f"{text} Modifying the _id field of an event makes it impossible to resume the stream.")
        self._events.append((encode(shown), event["_id"]))

    async def _add_invalidation(self, written: Instant) -> None:
        token = self._feed.build_token("invalidate").document
        await self._add_event({"_id": token, **event_head("invalidate", written)})
        self._done = True

    def _invalidate_at_once(self, written: Instant) -> None:
        token = self._feed.build_token("invalidate").document
        event = {"_id": token, **event_head("invalidate", written)}
        self._events.append((encode(event), token))
        self._done = True

    async def close(self) -> None:
        self._closed = True
        self._notifier.notify()
