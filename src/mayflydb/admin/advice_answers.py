"""The shapes of the admin API's advice on a ttl. `answers` has the others, and the rules for all."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from mayflydb.admin.answers import Answer, Count, Target, Time
from mayflydb.expiry.ttl_advice import Kind

Age = Annotated[int | float | None, Meta(description="Seconds; below 0: before the date; null: nothing was sampled.")]


class SampledAges(Answer, frozen=True):
    """Ages at which sampled accesses met records. `p50`, `p95`, `p99`: at most so long; `longest`: exact."""

    sampled: Count
    p50: Age
    p95: Age
    p99: Age
    longest: Age


class TtlCost(Answer, frozen=True):
    """The sampled accesses that would have come too late under a ttl, and their share of all sampled."""

    seconds: Count
    late_reads: Count
    late_updates: Count
    share: float


class TtlFrees(Answer, frozen=True):
    """The records that would expire at once, and the bytes of their values; `exact` False: about so many."""

    records: Count
    bytes: Count
    exact: bool


class DailyGrowth(Answer, frozen=True):
    """The records and bytes of values that a container gains in a day."""

    records_per_day: Count
    bytes_per_day: Count


class AdviceOnTtl(Answer, frozen=True):
    """The advice on a ttl that counts from one instant. `field`: of a date; `dated`: the share of sampled records that have it,
    where no index or column is set yet.
    """

    counts_from: Literal["the last write", "a date"]
    field: str | None
    dated: float | None
    present: int | None
    reads: SampledAges
    updates: SampledAges
    verdict: Kind
    proposed: int | None
    costs: list[TtlCost]
    frees: TtlFrees | None
    text: str
    command: str | None


class ContainerAdvice(Answer, frozen=True):
    """The accesses to a container since an instant, and the advice. `only_grows`: there is no ttl, and nothing leaves it."""

    target: Target
    since: Time | None
    observed_seconds: int | float
    created: Count
    deleted: Count
    own_ttl: Count
    only_grows: DailyGrowth | None
    advice: list[AdviceOnTtl]


class TtlAdviceAnswer(Answer, frozen=True):
    """Advice on the ttl of containers. `sampling`: the setting; 0: accesses are not observed."""

    now: Time
    sampling: Count
    targets: list[ContainerAdvice]
