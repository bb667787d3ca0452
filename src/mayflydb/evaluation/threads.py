"""A thread that runs functions, each of which can be stopped from outside between two steps of the interpreter."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, Final

from mayflydb.evaluation.stops import Stopped
from mayflydb.model.errors import MayflyError
from mayflydb.model.releasing import release_unused

SWITCH_SECONDS: Final = 0.0001
"""Seconds that a thread holds the interpreter, while any evaluation runs, before the event loop gets it."""


class ThreadCall:
    """One call of a function on a thread. The thread calls `settle` with (result, error) when the function has ended."""

    __slots__ = ("_lock", "_stopped", "_thread", "function", "given", "settle")

    def __init__(
        self, function: Callable[..., Any], given: tuple[Any, ...], settle: Callable[[Any, BaseException | None], None]
    ) -> None:
        self.function = function
        self.given = given
        self.settle = settle
        self._thread: int | None = None
        self._stopped = False
        self._lock = Lock()

    def run(self, thread: int) -> None:
        """Run the function on this thread, whose ident is `thread`."""
        result: Any = None
        error: BaseException | None = None
        try:
            result, error = self._call_function(thread)
        except Stopped as again:
            # A second stop, sent while the first one was handled. Uncaught it would end the thread, and its turn would never end.
            error = again
        # A stop may arrive until the call has ended, within `_end` too.
        while self._thread is not None:
            try:
                self._end(thread)
            except Stopped as late:
                error = late
        # Other objects may keep the call for a while, and should not keep its arguments.
        self.given = ()
        release_unused()
        self.settle(result, error)
        # The exception refers to this frame, and with it to all objects of the function.
        del error, result

    def _call_function(self, thread: int) -> tuple[Any, BaseException | None]:
        try:
            with self._lock:
                if self._stopped:
                    raise Stopped
                self._thread = thread
            return self.function(*self.given), None
        except BaseException as raised:  # noqa: BLE001 -- the call that waits raises it
            if isinstance(raised, Stopped | MayflyError):
                # The frames of a stopped query may hold millions of values. They are freed here, not on the event loop.
                raised.__traceback__ = raised.__context__ = None
            return None, raised

    def _end(self, thread: int) -> None:
        with self._lock:
            self._thread = None
            # A stop that was sent and has not arrived yet would hit the next call of this thread.
            _raise_in_thread(thread, None)

    def stop(self) -> None:
        """Raise Stopped in the function, or before it begins. Without effect after its end."""
        with self._lock:
            self._stopped = True
            if self._thread is not None:
                _raise_in_thread(self._thread, Stopped)


def _raise_in_thread(thread: int, error: type[BaseException] | None) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread), None if error is None else ctypes.py_object(error)
    )


@cache
def _keep_quiet_about_stops() -> None:
    """Keep Python from reporting a stop that arrives in a destructor, which cannot pass it on. The stop is sent again."""
    report = sys.unraisablehook

    def hook(unraisable: sys.UnraisableHookArgs, /) -> None:
        if not issubclass(unraisable.exc_type, Stopped):
            report(unraisable)

    sys.unraisablehook = hook


class EvaluationThread:
    """A thread that waits for calls, and runs each at once."""

    def __init__(self, name: str) -> None:
        _keep_quiet_about_stops()
        self._calls: SimpleQueue[ThreadCall | None] = SimpleQueue()
        # A daemon thread, so that an evaluation that cannot be stopped does not keep the process alive.
        self._thread = Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def call(self, call: ThreadCall) -> None:
        """Queue a call for this thread."""
        self._calls.put(call)

    def close(self) -> None:
        """End the thread after its present call."""
        self._calls.put(None)

    def _work(self) -> None:
        ident = self._thread.ident
        assert ident is not None
        while (call := self._calls.get()) is not None:
            call.run(ident)
            del call


class SwitchInterval:
    """The interpreter's switch interval: short while evaluations of this process run, else its earlier value."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._users = 0
        self._usual = 0.0

    def shorten(self) -> None:
        """Shorten the interval until `restore`. Calls may overlap."""
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._usual = sys.getswitchinterval()
                sys.setswitchinterval(min(self._usual, SWITCH_SECONDS))

    def restore(self) -> None:
        """End one `shorten`; the last one restores the interval."""
        with self._lock:
            self._users -= 1
            if not self._users:
                sys.setswitchinterval(self._usual)


switch_interval: Final = SwitchInterval()
"""One object for the whole process, since the interval belongs to the process."""
