"""The admin API's operations, for HTTP and for callers in the same process."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from mayflydb.admin import advice_answers as aa
from mayflydb.admin import answers as a
from mayflydb.admin import erasure_answers as ea
from mayflydb.admin import lifecycle_answers as la
from mayflydb.admin import lifecycle_requests as lr
from mayflydb.admin import requests as r
from mayflydb.admin import webhook_answers as wa
from mayflydb.admin.apply import Applier
from mayflydb.admin.archive_operations import archive_operations
from mayflydb.admin.archive_places import NOWHERE, ArchiveSites
from mayflydb.admin.archives import Archives
from mayflydb.admin.clock_control import ClockControl
from mayflydb.admin.erasure import ErasureReports
from mayflydb.admin.events import EventStreams
from mayflydb.admin.export_records import RecordExport
from mayflydb.admin.hold_operations import hold_operations
from mayflydb.admin.holds import HoldControl
from mayflydb.admin.import_records import RecordImport
from mayflydb.admin.lifecycles import Lifecycles
from mayflydb.admin.maintenance import Maintenance
from mayflydb.admin.operation import CONTAINER, Operation
from mayflydb.admin.pausing import Pausing
from mayflydb.admin.reports import ExpiryReports
from mayflydb.admin.resources import Resources
from mayflydb.admin.snapshots import SnapshotControl
from mayflydb.admin.targets import TargetResolver, Targets
from mayflydb.admin.ttl_advice import TtlAdvice
from mayflydb.admin.undeleting import Undeleting
from mayflydb.admin.webhooks import Webhooks
from mayflydb.admin.wires import Wires
from mayflydb.clock import SystemClock
from mayflydb.engine.engine import Engine

RESOURCES: Final = {
    "databases": [
        {
            "id": "shop",
            "containers": [
                {
                    "id": "sessions",
                    "partition_key": "/userId",
                    "default_ttl": 3600,
                    "items": [{"id": "s1", "userId": "u1"}],
                }
            ],
        }
    ]
}

EVENT_STREAMS: Final = "event_streams"
"""The name of the quota of streams of events."""

MAX_STREAMS: Final = 100
"""Streams of events, where nothing else is set."""


class Admin:
    """All operations on a running server.

    `spaces`: one for each front end. `shared`: other nodes use the same database. `info`: returns version and addresses, by the
    address that the client used. `ca_pem`: returns the certificate authority's certificate. `host_clock`: builds a clock that
    believes the host's. `wires`: callers of the front ends. `archive_sites`: the places that archives may have.
    """

    def __init__(
        self,
        engine: Engine,
        spaces: Sequence[Targets],
        time_travel: bool,
        shared: bool,
        info: Callable[[str | None], Mapping[str, Any]],
        ca_pem: Callable[[], Awaitable[bytes]],
        host_clock: Callable[[], SystemClock],
        wires: Wires,
        archive_sites: ArchiveSites = NOWHERE,
    ) -> None:
        self.engine = engine
        self.targets = TargetResolver(engine, spaces)
        # Front ends load the modules behind their references on first use.
        engine.reaper.refer({each.space: partial(getattr, each, "references") for each in spaces})
        engine.reaper.publications.publishers = {
            each.space: publisher for each in spaces if (publisher := each.publisher) is not None
        }
        engine.nodes.hold_filters.use({each.space: each for each in spaces})
        self.events = EventStreams(engine, self.targets, engine.quotas.get(EVENT_STREAMS, MAX_STREAMS))
        self.clock = ClockControl(
            engine, self.targets, time_travel, shared, host_clock, self.events.note, lambda: str(info(None)["storage"])
        )
        self.reports = ExpiryReports(engine, self.targets)
        self.advice = TtlAdvice(engine, self.targets)
        self.maintenance = Maintenance(engine, self.targets, self.clock, self.reports, self.events.note)
        self.pausing = Pausing(engine, self.targets)
        self.lifecycles = Lifecycles(engine, self.targets)
        self.webhooks = Webhooks(engine, self.targets, self.events, os.urandom)
        self.holds = HoldControl(engine, self.targets)
        self.archives = Archives(engine, self.targets, archive_sites, os.urandom)
        self.undeleting = Undeleting(engine, self.targets)
        self.erasure = ErasureReports(engine, self.targets)
        self.snapshots = SnapshotControl(engine, self.clock, self.events.note)
        self.applier = Applier(engine, self.targets, wires)
        self.imports = RecordImport(engine, self.targets, wires)
        self.exports = RecordExport(engine, self.targets, wires)
        self.info = info
        self.ca_pem = ca_pem

    def operations(self) -> tuple[Operation, ...]:
        """Return the table from which the HTTP routes and `openapi.json` are built."""
        return (
            *self._clock_operations(),
            *self._store_operations(),
            *self._data_operations(),
            *self._snapshot_operations(),
            *self._report_operations(),
            *self._ttl_operations(),
            *self._lifecycle_operations(),
            *self._undelete_operations(),
            *self._erasure_operations(),
            *self._webhook_operations(),
            *hold_operations(self.holds),
            *archive_operations(self.archives),
        )

    def _clock_operations(self) -> tuple[Operation, ...]:
        clock, none, facts = self.clock, r.NoMembers, a.ClockFacts
        return (
            Operation("GET", "clock", "Shows the clock.", none, facts, lambda _: clock.show()),
            Operation(
                "POST",
                "clock/advance",
                "Advances the clock through every expiry on the way, and answers when all purges are done.",
                r.Advance,
                a.Walk,
                lambda body: clock.advance(body.span(), body.sweep),
                {"by": "1h30m"},
            ),
            Operation(
                "POST",
                "clock/set",
                "Advances to an instant, as `/_mayfly/clock/advance` does.",
                r.SetClock,
                (a.Walk, facts),
                lambda body: clock.set(body.instant(), body.force),
                {"to": "2031-01-01T00:00:00Z"},
            ),
            Operation(
                "POST",
                "clock/freeze",
                "Stops the clock, and with it the reaper.",
                none,
                facts,
                lambda _: clock.freeze(),
            ),
            Operation("POST", "clock/resume", "Lets a frozen clock run again.", none, facts, lambda _: clock.resume()),
            Operation(
                "POST", "clock/reset", "Returns to the host's clock.", none, facts, lambda _: clock.follow_host()
            ),
            Operation(
                "POST",
                "clock/accept",
                "Takes the later of the two times of a jump as right.",
                none,
                facts,
                lambda _: clock.settle("accept"),
            ),
            Operation(
                "POST",
                "clock/reject",
                "Takes the earlier of the two times of a jump as right: nothing else turns a real clock back.",
                none,
                facts,
                lambda _: clock.settle("reject"),
            ),
        )

    def _store_operations(self) -> tuple[Operation, ...]:
        maintenance = self.maintenance
        return (
            Operation("GET", "stats", "Counts what is stored.", r.NoMembers, a.Stats, lambda _: maintenance.stats()),
            Operation(
                "POST",
                "purge",
                "Purges the records that are due now, whatever the schedule.",
                r.Purge,
                a.PurgeResult,
                lambda body: maintenance.purge(body.target),
                {"target": "cosmos:shop"},
            ),
            Operation(
                "POST",
                "reset",
                "Deletes everything, or one target.",
                r.Reset,
                a.ResetResult,
                lambda body: maintenance.reset(body.target, body.keep_clock),
                {"target": "cosmos:shop/sessions"},
            ),
        )

    def _data_operations(self) -> tuple[Operation, ...]:
        return (
            Operation(
                "POST",
                "apply",
                "Makes what a resource document describes, with all checks of clients' requests.",
                Resources,
                a.ApplyResult,
                self.applier.apply,
                RESOURCES,
            ),
            Operation(
                "POST",
                "data/import",
                "Writes records into one container, collection or table, with all checks of clients' requests.",
                r.ImportRecords,
                a.ImportResult,
                self.imports.write,
                {"target": CONTAINER, "mode": "upsert", "records": [{"id": "s2", "userId": "u1"}]},
                file=r.ImportFile,
            ),
            Operation(
                "GET",
                "data/export",
                "Reads a page of the visible records of one container, collection or table.",
                r.ExportPage,
                a.ExportedPage,
                self.exports.page,
                {"target": CONTAINER},
            ),
        )

    def _snapshot_operations(self) -> tuple[Operation, ...]:
        snapshots, name, example = self.snapshots, r.SnapshotName, {"name": "monday"}
        return (
            Operation(
                "GET", "snapshots", "Lists the snapshots.", r.NoMembers, a.SnapshotList, lambda _: snapshots.list_all()
            ),
            Operation(
                "PUT",
                "snapshots/{name}",
                "Saves everything that is stored, and the clock, under a name.",
                name,
                a.SnapshotSaved,
                lambda path: snapshots.save(path.name),
                example,
                uploads=True,
            ),
            Operation(
                "POST",
                "snapshots/{name}/restore",
                "Replaces everything by a snapshot.",
                name,
                a.SnapshotRestored,
                lambda path: snapshots.restore(path.name),
                example,
            ),
            Operation(
                "DELETE",
                "snapshots/{name}",
                "Deletes a snapshot.",
                name,
                a.SnapshotDeleted,
                lambda path: snapshots.delete(path.name),
                example,
            ),
        )

    def _report_operations(self) -> tuple[Operation, ...]:
        reports = self.reports
        return (
            Operation(
                "GET",
                "ttl",
                "Lists containers with their TTL settings and counts.",
                r.Listing,
                a.TtlList,
                lambda query: reports.list_containers(query.target),
                {"target": "cosmos:shop"},
            ),
            Operation(
                "GET",
                "ttl/forecast",
                "Counts deadlines by bucket from now to a horizon.",
                r.Forecast,
                a.ForecastAnswer,
                reports.forecast,
                {"horizon": "2h", "buckets": 4},
            ),
            Operation(
                "GET",
                "ttl/explain",
                "Explains when and why one record expires, or why it does not.",
                r.RecordName,
                a.ExplainedRecord,
                lambda query: reports.explain(query.target, query.id, query.pk),
                {"target": CONTAINER, "id": "s60", "pk": "u1"},
            ),
            Operation(
                "GET",
                "ttl/due",
                "Lists records by deadline, hidden ones included.",
                r.DueList,
                a.DueRecords,
                reports.list_due,
                {"target": CONTAINER, "limit": 10},
            ),
            Operation(
                "GET",
                "events/expired",
                "Lists the records that age removed, in the order of their purges, since the last reset of everything.",
                r.ExpiryList,
                a.ExpiredRecords,
                reports.page_expiries,
                {"target": CONTAINER, "limit": 10},
            ),
        )

    def _ttl_operations(self) -> tuple[Operation, ...]:
        reports, pausing = self.reports, self.pausing
        return (
            Operation(
                "GET",
                "ttl/advise",
                "Advises on the ttl of containers by the ages at which records are read and updated.",
                r.Listing,
                aa.TtlAdviceAnswer,
                lambda query: self.advice.advise(query.target),
                {"target": CONTAINER},
            ),
            Operation(
                "POST",
                "ttl/preview",
                "Counts what a change of TTL settings would expire, and changes nothing.",
                r.Preview,
                a.PreviewAnswer,
                lambda body: reports.preview(body.target, body.change()),
                {"target": CONTAINER, "default_ttl": 1800},
            ),
            Operation(
                "POST",
                "ttl/set",
                "Makes the change, with all checks of a client's request.",
                r.SetTtl,
                a.ChangedTtl,
                lambda body: reports.set_ttl(body.target, body.change()),
                {"target": CONTAINER, "default_ttl": 1800},
            ),
            Operation(
                "POST",
                "ttl/pause",
                "Stops purging, across restarts too.",
                r.Pause,
                a.PauseResult,
                lambda body: pausing.pause(body.target),
                {"target": CONTAINER},
            ),
            Operation(
                "POST",
                "ttl/resume",
                "Resumes expiry where it is paused.",
                r.Resume,
                a.ResumeResult,
                lambda body: pausing.resume(body.target, body.span(), body.dry_run),
                {"target": CONTAINER, "notice": "1d"},
            ),
        )

    def _lifecycle_operations(self) -> tuple[Operation, ...]:
        lifecycles = self.lifecycles
        return (
            Operation(
                "GET",
                "lifecycle",
                "Lists containers with their lifecycle settings.",
                r.Listing,
                la.LifecycleList,
                lambda query: lifecycles.show(query.target),
                {"target": CONTAINER},
            ),
            Operation(
                "POST",
                "lifecycle",
                "Changes the lifecycle settings of a container, which no client of a protocol sees.",
                lr.SetLifecycle,
                la.ChangedLifecycle,
                lifecycles.set,
                {"target": CONTAINER, "guard": {"records": 1000, "percent": 10}, "grace": "7d", "touch": "5m"},
            ),
            Operation(
                "GET",
                "guard",
                "Lists the purges that wait for confirmation.",
                r.Listing,
                la.HeldPurges,
                lambda query: lifecycles.list_held(query.target),
                {"target": CONTAINER},
            ),
            Operation(
                "POST",
                "guard/confirm",
                "Confirms a purge that waits: it goes on.",
                lr.Confirm,
                la.ConfirmedPurge,
                lambda body: lifecycles.confirm(body.target, body.token),
                {"target": CONTAINER, "token": "3-2-6b1f8"},
            ),
        )

    def _undelete_operations(self) -> tuple[Operation, ...]:
        return (
            Operation(
                "POST",
                "undelete",
                "Brings back expired records that are still stored, with the same content, under a new life.",
                lr.Undelete,
                la.UndeleteProgress,
                self.undeleting.undelete,
                {"target": CONTAINER, "from": "2030-01-01T00:00:00Z"},
            ),
            Operation(
                "GET",
                "undelete",
                "Tells how far the undelete of a container is.",
                lr.UndeleteOf,
                la.UndeleteProgress,
                lambda query: self.undeleting.show(query.target),
                {"target": CONTAINER},
            ),
        )

    def _erasure_operations(self) -> tuple[Operation, ...]:
        erasure = self.erasure
        return (
            Operation(
                "GET",
                "erasure",
                "Shows the state of the erasure log.",
                r.NoMembers,
                ea.ErasureStatus,
                lambda _: erasure.show(),
            ),
            Operation(
                "GET",
                "erasure/lines",
                "Reads a page of the erasure log.",
                r.ErasurePage,
                ea.ErasureLines,
                lambda query: erasure.page(query.checked_after()),
                {"after": 0},
            ),
            Operation(
                "GET",
                "erasure/key",
                "Returns the keyed hash that stands for a record in the erasure log, whether there is such a record or not.",
                r.RecordName,
                ea.ErasureKey,
                lambda query: erasure.hash_key(query.target, query.id, query.pk),
                {"target": CONTAINER, "id": "s60", "pk": "u1"},
            ),
        )

    def _webhook_operations(self) -> tuple[Operation, ...]:
        webhooks, example = self.webhooks, {"name": "audit"}
        added = {**example, "url": "http://localhost:9000/expired", "target": CONTAINER}
        return (
            Operation(
                "GET",
                "webhooks",
                "Lists webhooks, how far they are, and their dead letters.",
                r.NoMembers,
                wa.WebhookList,
                lambda _: webhooks.list_all(),
            ),
            Operation(
                "POST",
                "webhooks",
                "Adds a webhook: expiry events from now on are posted to an address.",
                lr.AddWebhook,
                wa.AddedWebhook,
                webhooks.add,
                added,
            ),
            Operation(
                "POST",
                "webhooks/{name}/test",
                "Sends a message without events.",
                lr.WebhookName,
                wa.TestedWebhook,
                lambda path: webhooks.test(path.name),
                example,
            ),
            Operation(
                "POST",
                "webhooks/{name}/retry",
                "Sends the dead letters of a webhook once more.",
                lr.WebhookName,
                wa.RetriedWebhook,
                lambda path: webhooks.retry(path.name),
                example,
            ),
            Operation(
                "DELETE",
                "webhooks/{name}",
                "Removes a webhook.",
                lr.WebhookName,
                wa.RemovedWebhook,
                lambda path: webhooks.remove(path.name),
                example,
            ),
        )
