"""A mixin for cases of unittest: a server for each class, empty for each test."""

from __future__ import annotations

import sys
import unittest
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from mayflydb.embedded import ServerHandle, serve
from mayflydb.testing.remote import ClockChoice, Mode, connect, spawn

if TYPE_CHECKING:
    # At run time it stands beside whatever case the class has, which may be another framework's.
    _Case = unittest.TestCase
else:
    _Case = object


class MayflyMixin(_Case):
    """Stands before a TestCase among the bases of a class: `class TestCarts(MayflyMixin, unittest.TestCase)`.

    `mayfly`: the server. It starts with the class. Before the `setUp` of a test it is emptied and filled from `mayfly_seed`, and
    its clock is frozen at `mayfly_start` (None: the second at which the class began). `mayfly_clock`: "system" for a clock that
    goes with the process's, as time-machine and freezegun move it. `mayfly_url`: a running server instead.
    Paths of seeds begin at the folder of the class's module.
    """

    mayfly: ClassVar[ServerHandle]
    mayfly_start: ClassVar[datetime | str | None] = None
    mayfly_seed: ClassVar[Sequence[str | Path | Mapping[str, Any]]] = ()
    mayfly_clock: ClassVar[ClockChoice] = "virtual"
    mayfly_mode: ClassVar[Mode] = "thread"
    mayfly_url: ClassVar[str | None] = None
    _mayfly_began: ClassVar[datetime]

    @classmethod
    def setUpClass(cls) -> None:
        running: AbstractContextManager[ServerHandle]
        if cls.mayfly_url is not None:
            running = connect(cls.mayfly_url)
        elif cls.mayfly_mode == "process":
            running = spawn()
        else:
            running = serve(memory=True, port=0, clock="virtual")
        cls.mayfly = cls.enterClassContext(running)
        cls._mayfly_began = cls.mayfly.clock.now().replace(microsecond=0)
        super().setUpClass()

    def setUp(self) -> None:
        if self.mayfly_clock == "system":
            if self.mayfly_start is not None:
                raise ValueError("mayfly_start is the time of a virtual clock: travel with time_machine or freezegun")
            self.mayfly.reset(keep_clock=True)
            self.mayfly.follow_process()
        else:
            self.mayfly.start_at(self.mayfly_start or self._mayfly_began)
        module = sys.modules[type(self).__module__]
        folder = Path(module.__file__ or "").parent
        sources = (each if isinstance(each, Mapping) else folder / each for each in self.mayfly_seed)
        self.mayfly.seed(*sources)
        super().setUp()
