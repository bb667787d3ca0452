"""The agenda of purges: what is next, by writes and by reads of the store, without either. Instants are plain numbers."""

from __future__ import annotations

import pytest

from mayflydb.expiry.agenda import Agenda, ContainerState
from mayflydb.expiry.passes import Schedule, Upcoming
from mayflydb.expiry.sweep import PassOverride, PurgeRequest, Waiting

C, D, E = 1, 2, 3
HOURLY = Schedule(0, 100)
"""Passes at 100, 200, 300, ..."""


def at(deadline: int, purge: int | None = None) -> Upcoming:
    return Upcoming(deadline, deadline if purge is None else purge)


def never(container: int) -> bool:
    return False


def read(agenda: Agenda, states: dict[int, ContainerState], last_pass: int | None = None) -> list[int]:
    """Read all unknown containers as if the store held these states; return those that were read."""
    found = []
    while (container := agenda.begin_read()) is not None:
        found.append(container)
        agenda.finish_read(states.get(container, ContainerState(None)), last_pass)
    return sorted(found)


def known(states: dict[int, ContainerState], last_pass: int | None = None) -> Agenda:
    """An agenda that has read these states."""
    agenda = Agenda()
    agenda.replace_containers(states.keys())
    assert read(agenda, states, last_pass) == sorted(states)
    return agenda


def request(horizon: int, override: PassOverride = "none", containers: frozenset[int] | None = None) -> PurgeRequest:
    return PurgeRequest(horizon, horizon, "sweep", containers, override=override)


def due(agenda: Agenda, horizon: int, override: PassOverride = "none") -> list[int]:
    return sorted(agenda.backlog(request(horizon, override), never))


# --- writes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "written", "after", "is_sooner"),
    [
        (None, at(50), at(50), True),
        (at(50), at(60), at(50), False),
        (at(50), at(50), at(50), False),
        (at(50), at(40), at(40), True),
        (at(50, 100), at(40, 100), at(40, 100), False),
        (at(50, 100), at(60, 60), at(50, 60), True),
        (at(50, 50), at(40, 100), at(40, 50), False),
    ],
)
def test_a_write_makes_a_purge_sooner_and_never_later(
    before: Upcoming | None, written: Upcoming, after: Upcoming, is_sooner: bool
) -> None:
    """Deadline and purge each become the earlier of the two; only an earlier purge is worth a wake."""
    agenda = known({C: ContainerState(before)})
    assert agenda.note_write(C, written) is is_sooner
    assert (agenda.next_deadline(), agenda.next_purge(never)) == (after.ends, after.purge)


def test_a_write_during_a_read_of_its_container_causes_another_read() -> None:
    """The read may have missed the record, and its result replaces the note."""
    agenda = Agenda()
    agenda.mark_unknown(C)
    assert agenda.begin_read() == C
    agenda.note_write(C, at(50))
    agenda.note_write(D, at(60))
    agenda.finish_read(ContainerState(at(90)), None)
    assert agenda.next_deadline() == 60
    assert read(agenda, {C: ContainerState(at(50))}) == [C]
    assert agenda.next_deadline() == 50


# --- reads -----------------------------------------------------------------------------------------------------------


def test_a_failed_read_leaves_its_container_unknown() -> None:
    agenda = Agenda()
    agenda.mark_unknown(C)
    assert agenda.begin_read() == C
    agenda.abandon_read()
    assert read(agenda, {C: ContainerState(at(50))}) == [C]
    assert agenda.next_deadline() == 50


def test_a_read_replaces_all_notes() -> None:
    agenda = known({C: ContainerState(at(50, 100), HOURLY), D: ContainerState(at(70))})
    agenda.note_write(C, at(10))
    agenda.mark_unknown(C)
    assert read(agenda, {C: ContainerState(at(80))}) == [C]
    assert (agenda.next_deadline(), list(agenda.containers), agenda.schedule(C)) == (70, [C, D], None)
    agenda.mark_unknown(D)
    assert read(agenda, {}) == [D]
    assert (agenda.next_deadline(), list(agenda.containers)) == (80, [C])


def test_a_survey_forgets_what_is_gone_and_reads_the_rest() -> None:
    agenda = known({C: ContainerState(at(50)), D: ContainerState(at(60))})
    agenda.replace_containers({D, E})
    assert agenda.next_deadline() == 60
    assert read(agenda, {D: ContainerState(at(61)), E: ContainerState(at(62))}) == [D, E]
    assert list(agenda.containers) == [D, E]


def test_nothing_is_next_of_nothing() -> None:
    agenda = Agenda()
    assert (agenda.begin_read(), agenda.next_deadline(), agenda.next_purge(never)) == (None, None, None)
    assert (agenda.next_pass(C), agenda.backlog(request(1 << 70), never)) == (None, {})
    agenda.abandon_read()
    assert agenda.begin_read() is None


# --- the backlog -----------------------------------------------------------------------------------------------------

PLAIN = ContainerState(at(50))
MONITORED = ContainerState(at(50, 100))
SCHEDULED = ContainerState(at(50, 100), HOURLY)


@pytest.mark.parametrize(
    ("state", "override", "first"),
    [
        (PLAIN, "none", 50),
        (PLAIN, "monitor", 50),
        (PLAIN, "all", 50),
        (MONITORED, "none", 100),
        (MONITORED, "monitor", 50),
        (MONITORED, "all", 50),
        (MONITORED, "demanded", 50),
        (SCHEDULED, "none", 100),
        (SCHEDULED, "monitor", 100),
        (SCHEDULED, "all", 50),
        (SCHEDULED, "demanded", 50),
    ],
)
def test_a_container_is_due_from_its_purge_on(state: ContainerState, override: PassOverride, first: int) -> None:
    """Inclusive: at the instant itself. An override purges from the deadline on."""
    agenda = known({C: state})
    assert (due(agenda, first - 1, override), due(agenda, first, override)) == ([], [C])


@pytest.mark.parametrize(
    ("containers", "stopped", "excluded", "override", "found"),
    [
        (None, set(), set(), "none", [C, D]),
        (frozenset({D, E}), set(), set(), "none", [D]),
        (frozenset(), set(), set(), "none", []),
        (None, {C}, set(), "none", [D]),
        (None, {C}, set(), "all", [D]),
        (None, {C}, set(), "demanded", [C, D]),
        (None, set(), {D}, "none", [C]),
        (None, set(), {D}, "demanded", [C]),
    ],
)
def test_the_backlog_leaves_out(
    containers: frozenset[int] | None, stopped: set[int], excluded: set[int], override: PassOverride, found: list[int]
) -> None:
    """Containers that the request does not name, that are stopped unless demanded, and that the caller excludes."""
    agenda = known({C: PLAIN, D: PLAIN, E: ContainerState(at(1_000))})
    asked = request(50, override, containers)
    assert sorted(agenda.backlog(asked, stopped.__contains__, excluded)) == found


def test_turns_and_deadlines_go_to_the_planner() -> None:
    agenda = known({C: ContainerState(at(50)), D: ContainerState(at(40)), E: ContainerState(at(30))})
    for container in (D, C, D):
        agenda.count_turn(container)
    assert agenda.backlog(request(50), never) == {C: Waiting(50, 2), D: Waiting(40, 3), E: Waiting(30, 0)}


def test_a_container_without_expiring_records_loses_its_turn() -> None:
    agenda = known({C: PLAIN})
    agenda.count_turn(C)
    agenda.mark_unknown(C)
    read(agenda, {})
    agenda.note_write(C, at(50))
    assert agenda.backlog(request(50), never) == {C: Waiting(50, 0)}


# --- postponements ---------------------------------------------------------------------------------------------------


def test_a_postponed_container_waits_and_the_others_go_on() -> None:
    agenda = known({C: PLAIN, D: PLAIN})
    agenda.postpone(C, 80)
    assert (due(agenda, 79), due(agenda, 80)) == ([D], [C, D])
    assert (agenda.next_purge(never), agenda.next_purge(lambda container: container == D)) == (50, 80)
    assert (agenda.is_postponed(C), agenda.is_postponed(D)) == (True, False)
    agenda.resume(C)
    assert (agenda.is_postponed(C), due(agenda, 79)) == (False, [C, D])


def test_a_wait_that_is_over_is_still_a_failure() -> None:
    """Until a purge succeeds: the result of its pass is not stored before."""
    agenda = known({C: PLAIN})
    agenda.postpone(C, 80)
    assert due(agenda, 1_000) == [C]
    assert agenda.is_postponed(C)


def test_a_postponement_moves_the_next_pass() -> None:
    agenda = known({C: SCHEDULED})
    assert agenda.next_pass(C) == 100
    agenda.postpone(C, 130)
    assert agenda.next_pass(C) == 130
    agenda.postpone(C, 70)
    assert agenda.next_pass(C) == 100


# --- the next purge --------------------------------------------------------------------------------------------------


def test_the_next_purge_is_the_earliest_that_is_not_stopped() -> None:
    agenda = known({C: SCHEDULED, D: ContainerState(at(70)), E: ContainerState(at(20, 500))})
    assert agenda.next_deadline() == 20
    assert agenda.next_purge(never) == 70
    assert agenda.next_purge(lambda container: container == D) == 100
    assert agenda.next_purge(lambda container: True) is None


@pytest.mark.parametrize(
    ("state", "expected"), [(SCHEDULED, 100), (MONITORED, None), (ContainerState(None, HOURLY), None)]
)
def test_only_a_container_with_its_own_schedule_has_a_next_pass(state: ContainerState, expected: int | None) -> None:
    assert known({C: state}).next_pass(C) == expected


# --- passes that have ended ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "last_pass", "purge"),
    [
        # No pass yet.
        (ContainerState(at(50, 100), HOURLY), None, 100),
        # Records are left that were due at the pass. Without a stored result nobody knows whether it has ended.
        (ContainerState(at(50, 100), HOURLY), 100, 100),
        (ContainerState(at(100, 100), HOURLY), 100, 100),
        (ContainerState(at(50, 100), HOURLY, stored_pass=100), 100, 200),
        # The stored result is that of an earlier pass, or of one on demand.
        (ContainerState(at(50, 100), HOURLY, stored_pass=100), 200, 100),
        (ContainerState(at(50, 100), HOURLY, stored_pass=130), 100, 100),
        # All that is left is due after the pass.
        (ContainerState(at(101, 200), HOURLY), 100, 200),
        (ContainerState(None, HOURLY), 100, None),
    ],
)
def test_a_read_after_a_pass(state: ContainerState, last_pass: int | None, purge: int | None) -> None:
    agenda = known({C: state}, last_pass)
    assert agenda.next_pass(C) == purge
    assert agenda.schedule(C) == HOURLY


def test_after_a_pass_a_due_record_waits_for_the_next() -> None:
    """A read that found nothing due ends the pass, whether the record is met by a note or by another read."""
    agenda = known({C: ContainerState(None, HOURLY)}, last_pass=100)
    agenda.note_scheduled_write(C, at(30, 100), HOURLY, last_pass=100)
    assert (agenda.next_pass(C), agenda.next_deadline()) == (200, 30)
    agenda.mark_unknown(C)
    read(agenda, {C: ContainerState(at(30, 100), HOURLY)}, last_pass=100)
    assert agenda.next_pass(C) == 200
    agenda.mark_unknown(C)
    read(agenda, {C: ContainerState(at(30, 100), HOURLY)}, last_pass=200)
    assert agenda.next_pass(C) == 100, "the pass at 200 has not ended, and takes the record"


def test_a_pass_ends_by_time_if_nothing_is_due_at_it() -> None:
    """Without a read: the next known record is due after the pass."""
    agenda = known({C: ContainerState(at(150, 200), HOURLY)}, last_pass=None)
    agenda.note_scheduled_write(C, at(30, 100), HOURLY, last_pass=100)
    assert agenda.next_pass(C) == 200


def test_during_a_pass_a_due_record_is_purged_by_it() -> None:
    agenda = known({C: SCHEDULED}, last_pass=None)
    agenda.note_scheduled_write(C, at(30, 100), HOURLY, last_pass=100)
    assert (agenda.next_pass(C), agenda.next_deadline()) == (100, 30)


def test_a_fresh_record_does_not_end_a_pass() -> None:
    """Older records may be left that were due at the pass, beyond the limit of the last sweep."""
    agenda = known({C: SCHEDULED}, last_pass=100)
    agenda.count_turn(C)
    agenda.mark_unknown(C)
    agenda.note_scheduled_write(C, at(150, 200), HOURLY, last_pass=100)
    read(agenda, {C: ContainerState(at(60, 100), HOURLY)}, last_pass=100)
    assert agenda.next_pass(C) == 100


def test_a_write_during_the_first_read_does_not_end_a_pass() -> None:
    """Nothing is known of the container yet, which is not the same as that nothing is due."""
    agenda = Agenda()
    agenda.mark_unknown(C)
    assert agenda.begin_read() == C
    agenda.note_scheduled_write(C, at(30, 100), HOURLY, last_pass=100)
    agenda.finish_read(ContainerState(at(20, 100), HOURLY), last_pass=100)
    read(agenda, {C: ContainerState(at(20, 100), HOURLY)}, last_pass=100)
    assert agenda.next_pass(C) == 100


def test_locks_do_not_end_a_pass() -> None:
    agenda = known({C: ContainerState(None, HOURLY, is_locked=True)}, 100)
    assert due(agenda, 150) == []
    agenda.mark_unknown(C)
    assert read(agenda, {C: ContainerState(at(50, 100), HOURLY)}, 100) == [C]
    assert due(agenda, 150) == [C]


def test_a_container_that_is_gone_leaves_nothing() -> None:
    agenda = known({C: ContainerState(None, HOURLY), D: ContainerState(at(50))}, 100)
    for container in (C, D):
        agenda.postpone(container, 500)
        agenda.mark_unknown(container)
        assert agenda.begin_read() == container
        agenda.finish_read(None, None)
    for kept in (agenda._upcoming, agenda._schedules, agenda._ended, agenda._postponed, agenda._turns):
        assert kept == {}


def test_an_unknown_container_says_nothing_about_its_pass() -> None:
    """A sweep has made it unknown, and more records may be due."""
    agenda = known({C: ContainerState(at(150, 200), HOURLY)}, last_pass=None)
    agenda.mark_unknown(C)
    agenda.note_scheduled_write(C, at(30, 100), HOURLY, last_pass=100)
    assert agenda.next_pass(C) == 100


def test_a_written_record_brings_its_containers_schedule() -> None:
    agenda = Agenda()
    assert agenda.note_scheduled_write(C, at(30, 100), HOURLY, last_pass=None)
    assert (agenda.schedule(C), agenda.next_pass(C)) == (HOURLY, 100)


def test_a_clock_set_back_forgets_ended_passes() -> None:
    agenda = known({C: ContainerState(at(101, 200), HOURLY)}, last_pass=100)
    agenda.roll_back()
    assert read(agenda, {C: ContainerState(at(50, 100), HOURLY)}, last_pass=100) == [C]
    assert agenda.next_pass(C) == 100
