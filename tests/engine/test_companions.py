"""Changes of companion rows that depend on the rows beside them."""

from __future__ import annotations

import msgspec
import pytest

from engine.site import Site
from mayflydb.engine.catalog import Definition, Node
from mayflydb.model.errors import OwnerNotFound


async def add(site: Site, *names: str) -> Node:
    """Create rows below one home, each mentioning `b` in its definition; return the home."""
    engine = site.engine
    space = await engine.definitions.space("test", site.now)
    home = await engine.companions.home("test rows", space.id, site.now)
    for name in names:
        await engine.companions.create(home.id, name, lambda _: Definition({"mentions": "b"}, site.now))
    return home


def test_a_change_that_needs_another_row_is_refused_without_it(site: Site) -> None:
    async def change() -> None:
        home = await add(site, "a", "b")
        companions = site.engine.companions
        [row, _] = await site.engine.children(home.id)
        changed = await companions.replace(row.id, "a", lambda _: Definition({"n": 1}, site.now), site.now, needs="b")
        assert changed.body == {"n": 1}
        assert await companions.drop(home.id, "b")
        with pytest.raises(OwnerNotFound):
            await companions.replace(row.id, "a", lambda _: Definition({"n": 2}, site.now), site.now, needs="b")
        assert [node.body for node in await site.engine.children(home.id)] == [{"n": 1}]

    site.run(change())


def test_a_row_is_dropped_with_its_mentions(site: Site) -> None:
    def forget(node: Node) -> Definition | None:
        return None if node.name == "c" else msgspec.structs.replace(node.definition, body={})

    async def change() -> None:
        home = await add(site, "a", "b", "c")
        companions = site.engine.companions
        assert await companions.drop_with_mentions(home.id, "b", forget, site.now)
        rows = {node.name: (node.body, node.definition.version) for node in await site.engine.children(home.id)}
        assert rows == {"a": ({}, 2), "c": ({"mentions": "b"}, 1)}
        assert not await companions.drop_with_mentions(home.id, "b", forget, site.now)

    site.run(change())
