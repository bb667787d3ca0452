"""The admin API of a server or database in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from mayflydb.admin.hints import hint_of, word_hint
from mayflydb.embedded.threads import Home
from mayflydb.model.errors import BadRequest, MayflyError
from mayflydb.model.instant import Instant

if TYPE_CHECKING:
    from mayflydb.admin.operations import Admin


def with_hint(error: MayflyError) -> MayflyError:
    """Add an error's hint to what Python prints of it."""
    if hint := word_hint(hint_of(error), "python"):
        error.add_note(f"Try: {hint}")
    return error


class AsyncControls:
    """Runs operations of the admin API on the event loop of the caller, which is the database's."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._operations = {(each.method, each.path): each for each in admin.operations()}

    async def ask(self, method: str, path: str, /, **members: Any) -> dict[str, Any]:
        """Run an operation and return its answer. `path`: as in the table of operations, `snapshots/{name}`. MayflyError."""
        operation = self._operations[method, path]
        try:
            wanted = msgspec.convert(members, operation.parameters)
        except msgspec.ValidationError as error:
            raise BadRequest(str(error)) from error
        try:
            return await operation.handler(wanted)
        except MayflyError as error:
            with_hint(error)
            raise

    async def now(self) -> Instant:
        """Return the present."""
        return await self._admin.engine.now()

    async def start_at(self, instant: Instant) -> None:
        """Freeze the clock of an empty database at an instant, to which later resets return."""
        await self._admin.clock.start_at(instant)

    async def follow_process(self) -> None:
        """Follow the clock of this process."""
        await self._admin.clock.follow_process()


class Within:
    """The same for other threads, which wait."""

    def __init__(self, home: Home, admin: Admin) -> None:
        self._home = home
        self._controls = AsyncControls(admin)

    def ask(self, method: str, path: str, /, **members: Any) -> dict[str, Any]:
        return self._home.call(self._controls.ask(method, path, **members))

    def now(self) -> Instant:
        return self._home.call(self._controls.now())

    def start_at(self, instant: Instant) -> None:
        self._home.call(self._controls.start_at(instant))

    def follow_process(self) -> None:
        self._home.call(self._controls.follow_process())
