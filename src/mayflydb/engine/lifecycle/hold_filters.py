"""Filters of legal holds, compiled by the languages of the front ends and evaluated in the writer on versions that leave.

A filter is a condition whose time is linear in the bytes of a record: the languages refuse others when the hold is added. A
record above LARGEST bytes is not evaluated. So one evaluation holds the writer for a few milliseconds at most. What cannot be
decided counts as held.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

import msgspec

from mayflydb.expiry.legal_hold import LegalHold, find_in_force
from mayflydb.model.errors import MayflyError
from mayflydb.model.record import Record

log = logging.getLogger(__name__)

N = TypeVar("N")
N_contra = TypeVar("N_contra", contravariant=True)

LARGEST: Final = 256 << 10
"""Bytes of a value above which a filter is not evaluated, and the record is held."""

MAX_CONTAINERS: Final = 1_000
"""Containers whose compiled filters are kept."""

Condition: TypeAlias = Callable[[Any], bool]
"""Returns whether a decoded record matches."""


class HoldLanguage(Protocol[N_contra]):
    """The filters of a front end. `N_contra`: a node of the catalogue, which this module does not look into."""

    def record_reader(self, container: N_contra) -> Callable[[Record], Any]:
        """Return the function that decodes a stored record for conditions."""

    def compile_condition(self, container: N_contra, text: str) -> Condition:
        """Compile a filter. BadRequest for a wrong text; Unsupported for what no filter of a hold has, by name."""


class Matches(msgspec.Struct, frozen=True):
    """The numbers of the holds that a version is under, and of those among them whose filters could not be decided."""

    holds: tuple[int, ...] = ()
    undecided: tuple[int, ...] = ()


NO_MATCHES: Final = Matches()


class ContainerFilters:
    """The compiled filters of the holds in force on one container."""

    def __init__(self, holds: tuple[LegalHold, ...], language: HoldLanguage[N], container: N) -> None:
        self._read = language.record_reader(container)
        self._conditions = [(hold, _compile(hold, language, container)) for hold in holds]
        self._reported: set[int] = set()

    def match(self, record: Record, after: Record | None = None) -> Matches:
        """Return the holds under which a version leaves. `after`: the version that replaces it; None: the record leaves."""
        found: list[int] = []
        undecided: list[int] = []
        values: list[Any] = []
        later: list[Any] = []
        for hold, condition in self._conditions:
            answer = self._decide(hold, condition, record, values)
            if answer is False or (
                after is not None and not hold.versions and self._decide(hold, condition, after, later) is not False
            ):
                continue
            found.append(hold.number)
            if answer is None:
                undecided.append(hold.number)
        return Matches(tuple(found), tuple(undecided)) if found else NO_MATCHES

    def _decide(
        self, hold: LegalHold, condition: Condition | MayflyError | None, record: Record, values: list[Any]
    ) -> bool | None:
        """Return whether a version matches; None: that cannot be decided. `values`: has the decoded version once it is."""
        if condition is None:
            return True
        if isinstance(condition, MayflyError):
            self._report(hold, condition)
            return None
        if len(record.value) > LARGEST:
            return None
        try:
            if not values:
                values.append(self._read(record))
            return condition(values[0])
        except Exception as error:  # noqa: BLE001 -- whatever goes wrong, the record must not be lost
            self._report(hold, error)
            return None

    def _report(self, hold: LegalHold, error: Exception) -> None:
        if hold.number not in self._reported:
            self._reported.add(hold.number)
            log.warning("the filter of the hold %s cannot be decided, and what leaves is held: %r", hold.name, error)


def _compile(hold: LegalHold, language: HoldLanguage[N], container: N) -> Condition | MayflyError | None:
    if hold.where is None:
        return None
    try:
        return language.compile_condition(container, hold.where)
    except MayflyError as error:
        # As of a column that was dropped since.
        return error


class HoldFilters(Generic[N]):
    """The filters of all containers; those of a container are compiled once for each state of its row."""

    def __init__(self) -> None:
        self._languages: Mapping[str, HoldLanguage[N]] = {}
        self._compiled: dict[int, tuple[N, ContainerFilters]] = {}

    def use(self, languages: Mapping[str, HoldLanguage[N]]) -> None:
        """Take the languages, by the names of front ends."""
        self._languages = languages

    def language(self, name: str) -> HoldLanguage[N] | None:
        """Return the language of a front end; None: it is not there yet."""
        return self._languages.get(name)

    def knows(self, holds: tuple[LegalHold, ...]) -> bool:
        """Return whether the languages of these holds are there. Before, as at the start of a server, nothing is purged."""
        return all(hold.language in self._languages for hold in holds)

    def find(self, id: int, container: N, holds: tuple[LegalHold, ...]) -> ContainerFilters | None:
        """Return the filters of a container with this id; None: no hold is in force."""
        known = self._compiled.get(id)
        if known is not None and known[0] is container:
            return known[1]
        in_force = find_in_force(holds)
        if not in_force:
            return None
        filters = ContainerFilters(in_force, self._language_of(in_force), container)
        if len(self._compiled) >= MAX_CONTAINERS:
            self._compiled.pop(next(iter(self._compiled)))
        self._compiled[id] = (container, filters)
        return filters

    def _language_of(self, holds: tuple[LegalHold, ...]) -> HoldLanguage[N]:
        # All holds on a container are in the language of its front end.
        return self._languages.get(holds[0].language, _Undecided())


class _Undecided:
    """The language of a front end that is not there: no filter can be decided."""

    def record_reader(self, container: object) -> Callable[[Record], Any]:
        return lambda record: record

    def compile_condition(self, container: object, text: str) -> Condition:
        raise MayflyError("the language of the filter is not served")
