"""Chooses and starts the server of a test session, by the factory's arguments, the command line and the ini file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from weakref import WeakKeyDictionary

import msgspec
import pytest

from mayflydb.clock import host_us
from mayflydb.embedded import ServerHandle, serve
from mayflydb.model.instant import to_datetime
from mayflydb.testing.remote import ClockChoice, Mode, connect, spawn

MODES: Final = ("thread", "process")
CLOCKS: Final = ("virtual", "system")

ELSEWHERE: Final = (
    'the clock "system" is that of the tests\' process, which time-machine and freezegun move, and a server in another process'
    ' does not see it: leave out {other}, or take the clock "virtual"'
)


class Choice(msgspec.Struct, frozen=True):
    """The server for tests: a running one, or one that is started in a thread or process, and the files that fill it."""

    url: str | None
    mode: Mode
    seed: tuple[Path, ...]
    clock: ClockChoice


class Beginning(msgspec.Struct, frozen=True):
    """The state in which tests find a server: the time, and the files of resources."""

    start: datetime
    seed: tuple[Path, ...] = ()
    clock: ClockChoice = "virtual"
    other: str | None = None
    """The option by which the server is in another process."""


_BEGINNINGS: WeakKeyDictionary[ServerHandle, Beginning] = WeakKeyDictionary()


def fixture(
    *,
    url: str | None = None,
    mode: Mode | None = None,
    clock: ClockChoice | None = None,
    seed: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
) -> Callable[..., Iterator[ServerHandle]]:
    """Make a fixture for the whole session that stands in the place of `mayfly_server`, with other options.

    `url`, `mode`, `clock` and `seed` are stronger than `--mayfly-url`, `--mayfly-mode`, `--mayfly-clock` and `--mayfly-seed`, and
    those stronger than the ini file. Paths begin at the root of the tests.
    """
    given = {"url": url, "mode": mode, "clock": clock, "seed": None if seed is None else as_files(seed)}

    @pytest.fixture(scope="session", name="mayfly_server")
    def mayfly_server(pytestconfig: pytest.Config) -> Iterator[ServerHandle]:
        with start_server(pytestconfig, given) as server:
            yield server

    return mayfly_server


def as_files(given: Any) -> tuple[Any, ...]:
    """Return one file, or several, as a tuple."""
    if given is None:
        return ()
    return (given,) if isinstance(given, str | os.PathLike) else tuple(given)


@contextmanager
def start_server(config: pytest.Config, given: Mapping[str, Any]) -> Iterator[ServerHandle]:
    """Run the server that is chosen until the block ends. UsageError for options that contradict each other."""
    choice = choose(config, given)
    if choice.url is not None:
        running: Any = connect(choice.url)
    else:
        running = spawn() if choice.mode == "process" else serve(memory=True, port=0, clock="virtual")
    with running as server:
        # A session may begin within a test's trip; its other tests begin at the host's time all the same.
        now = server.clock.now() if choice.url is not None else to_datetime(host_us())
        start = now.replace(microsecond=0)
        _BEGINNINGS[server] = Beginning(start, choice.seed, choice.clock, _elsewhere(choice))
        if choice.clock == "system":
            server.follow_process()
        yield server


def beginning_of(server: ServerHandle) -> Beginning:
    """Return the state in which tests find a server. A server of the tests' own begins when it is first asked for."""
    found = _BEGINNINGS.get(server)
    if found is None:
        found = _BEGINNINGS[server] = Beginning(server.clock.now().replace(microsecond=0))
    return found


def begin(server: ServerHandle, given: Mapping[str, Any]) -> ClockChoice:
    """Bring a server into the state in which a test finds it; return its clock. `given`: by the test's marker. UsageError."""
    beginning = beginning_of(server)
    clock: ClockChoice = given.get("clock") or ("virtual" if "start" in given else beginning.clock)
    if clock == "system" and beginning.other is not None:
        raise pytest.UsageError(ELSEWHERE.format(other=beginning.other))
    if given.get("keep"):
        if clock == "system":
            # A test that failed has stopped the clock for its report.
            server.follow_process()
        return clock
    if clock == "system":
        server.reset(keep_clock=True)
        server.follow_process()
    else:
        server.start_at(given.get("start") or beginning.start)
    server.seed(*beginning.seed)
    return clock


def choose(config: pytest.Config, given: Mapping[str, Any]) -> Choice:
    """Return the strongest options: arguments of the factory, then the command line, then the ini file."""
    root, called = config.rootpath, config.invocation_params.dir
    flags = {name: config.getoption(f"mayfly_{name}") for name in ("url", "mode", "clock", "seed")}
    ini = {name: config.getini(f"mayfly_{name}") or None for name in ("url", "mode", "clock", "seed")}
    url, mode = _choose_place((given, flags, ini))
    clock: Any = next((level["clock"] for level in (given, flags, ini) if level["clock"] is not None), "virtual")
    if clock not in CLOCKS:
        raise pytest.UsageError(f"mayfly_clock is {' or '.join(CLOCKS)}, not {clock!r}")
    choice = Choice(url, mode, (), clock)
    if clock == "system" and (other := _elsewhere(choice)) is not None:
        raise pytest.UsageError(ELSEWHERE.format(other=other))
    for level, folder in ((given, root), (flags, called), (ini, root)):
        if level["seed"] is not None:
            return msgspec.structs.replace(choice, seed=tuple(folder / each for each in level["seed"]))
    return choice


def _choose_place(levels: Sequence[Mapping[str, Any]]) -> tuple[str | None, Mode]:
    url, mode = None, None
    for level in levels:
        url, mode = level["url"], level["mode"]
        if url is not None and mode is not None:
            raise pytest.UsageError("one of url and mode: a server that runs already, or one that is started")
        if url is not None or mode is not None:
            break
    if mode not in (None, *MODES):
        raise pytest.UsageError(f"mayfly_mode is {' or '.join(MODES)}, not {mode!r}")
    if url is not None and int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) > 1:
        raise pytest.UsageError("several processes of tests would empty one server under each other: leave the url out")
    return url, mode or "thread"


def _elsewhere(choice: Choice) -> str | None:
    if choice.url is not None:
        return "the url (--mayfly-url)"
    return 'the mode "process" (--mayfly-mode)' if choice.mode == "process" else None
