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


def test_rows_beside_a_marker_change_together(site: Site) -> None:
    def forget(node: Node) -> Definition | None:
        return None if node.name == "c" else msgspec.structs.replace(node.definition, body={})

    async def change() -> None:
        home = await add(site, "a", "b", "c", "d")
        companions = site.engine.companions
        marker = next(node for node in await site.engine.children(home.id) if node.name == "b")
        assert await companions.redefine_each(marker, ["a", "c", "missing"], forget, site.now)
        rows = {node.name: (node.body, node.definition.version) for node in await site.engine.children(home.id)}
        kept = ({"mentions": "b"}, 1)
        assert rows == {"a": ({}, 2), "b": kept, "c": kept, "d": kept}
        assert await companions.drop(home.id, "b")
        assert not await companions.redefine_each(marker, ["d"], forget, site.now)
        assert {node.name: node.body for node in await site.engine.children(home.id)}["d"] == {"mentions": "b"}

    site.run(change())
