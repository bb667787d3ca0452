"""Power cuts on a simulated disk: every acknowledged commit is there afterwards, and the clock's mark ahead of all answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from time import monotonic

import pytest

import planted
from reliability.disk.judging import Findings, cut_everywhere, workbench
from reliability.disk.recording import record

SLICES = 4
RECORDINGS, STEPS, IMAGES = 13, 40, 400
"""Recordings of each slice, steps of each recording, images of each recording: 20,800 images in all."""

FLOOR = 20_000
CONTROL_RECORDINGS = 4
CONTROL_IMAGES = 150


def cut(
    seed: int, recordings: int, images: int, steps: int = STEPS, synchronous: str | None = None, lying: bool = False
) -> Findings:
    """Record and cut; same seed, same images."""
    findings = Findings()
    with workbench() as directory:
        for n in range(recordings):
            recording = asyncio.run(record(seed + n, steps, synchronous, lying))
            cut_everywhere(recording, images, seed + n, directory, findings)
            assert findings.kinds.total() < 1000 or synchronous or lying, findings.wrong
    return findings


def test_there_are_enough_images() -> None:
    assert SLICES * RECORDINGS * IMAGES >= FLOOR


@pytest.mark.parametrize("number", range(SLICES))
def test_nothing_acknowledged_is_lost(number: int, seed: int, figure: Callable[[str], None]) -> None:
    began = monotonic()
    findings = cut(seed, RECORDINGS, IMAGES)
    assert not findings.kinds, findings.wrong
    assert findings.later > findings.images // 100, "hardly ever was a commit in flight"
    rate = findings.images / (monotonic() - began)
    figure(
        f"N={findings.images} images exact (3/N = {3 / findings.images:.3%}), "
        f"{findings.later} with the commit in flight, {rate:.0f}/s"
    )


@pytest.mark.parametrize(
    ("synchronous", "lying"), [("NORMAL", False), ("OFF", False), (None, True)], ids=["normal", "off", "lying fsync"]
)
def test_a_disk_or_a_setting_that_loses_is_caught(
    synchronous: str | None, lying: bool, figure: Callable[[str], None]
) -> None:
    def check(seed: int) -> None:
        findings = cut(seed, CONTROL_RECORDINGS, CONTROL_IMAGES, synchronous=synchronous, lying=lying)
        assert findings.kinds["lost"] == 0, f"{dict(findings.kinds)} of {findings.images}"

    found = planted.found(check, range(5))
    assert found, "the control lost nothing: these images prove nothing"
    figure(f"control: {found}")


@pytest.mark.soak
def test_power_cuts_for_hours(
    seed: int, soaking: Callable[[float], Iterator[int]], figure: Callable[[str], None]
) -> None:
    images = 0
    for number in soaking(0.2):
        findings = cut(seed + number * 100, 10, IMAGES, steps=STEPS * (1 + number % 5))
        assert not findings.kinds, (seed + number * 100, findings.wrong)
        images += findings.images
        figure(f"N={images} images exact (3/N = {3 / images:.4%})")
