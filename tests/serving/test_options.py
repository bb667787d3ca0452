"""Settings reach the front ends by their names, and none is read in vain."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import mayflydb
from mayflydb.config import load
from mayflydb.config.settings import CosmosSettings, MongoSettings, Settings, YdbSettings
from mayflydb.frontends.cosmos.calls import Account
from mayflydb.frontends.mongo.options import Options as MongoOptions
from mayflydb.frontends.ydb.options import Options as YdbOptions
from mayflydb.serving.options import options_from

SOURCE = Path(mayflydb.__file__).parent

PAIRS = [
    # The front end's options, its settings, and the options that are computed from the setting of the same name.
    (MongoOptions, MongoSettings, {"topology", "advertise", "auth", "compressors"}),
    (YdbOptions, YdbSettings, {"advertise", "auth"}),
    (Account, CosmosSettings, set[str]()),
]


@pytest.mark.parametrize(("options", "settings", "computed"), PAIRS, ids=["mongo", "ydb", "cosmos"])
def test_an_option_has_the_type_and_the_default_of_its_setting(
    options: type[msgspec.Struct], settings: type[msgspec.Struct], computed: set[str]
) -> None:
    types = {field.name: field.type for field in msgspec.structs.fields(settings)}
    own = {field.name: field for field in msgspec.structs.fields(options)}
    sections = {type(section): section for section in each_section(load({}, {}, search=False).settings)}
    same = own.keys() & types.keys() - computed
    assert same, "none is handed over by its name"
    assert {name for name in same if own[name].type != types[name]} == set(), "computed, or of another type by mistake"
    defaults = {name: getattr(sections[settings], name) for name in same}
    made = {
        name: own[name].default if own[name].default_factory is msgspec.NODEFAULT else own[name].default_factory()
        for name in same
    }
    assert made == defaults


def each_section(settings: Settings) -> Iterator[msgspec.Struct]:
    yield from (getattr(settings, name) for name in settings.__struct_fields__)


class Given(msgspec.Struct):
    port: int = 1
    depth: int = 2
    unknown: int = 3


class Taking(msgspec.Struct):
    port: int = 0
    depth: int = 0
    other: int = 9


def test_settings_are_handed_over_by_name_unless_computed() -> None:
    assert options_from(Taking, Given(), depth=7) == Taking(port=1, depth=7, other=9)
    with pytest.raises(TypeError):
        options_from(Taking, Given(), deep=7)


def test_every_setting_has_an_effect() -> None:
    """Each field of the settings is read somewhere outside of config/."""
    settings = load({}, {}, search=False).settings
    # Drop-in mode is a section only where it is on.
    sections = {name: getattr(settings, name) for name in settings.__struct_fields__ if name != "drop_in"}
    fields = {f"{name}.{field}" for name, section in sections.items() for field in section.__struct_fields__}
    unread = {each.rpartition(".")[2] for each in fields}
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        # To parse a file takes long; most have none of the names that are still looked for.
        if not path.is_relative_to(SOURCE / "config") and any(f".{field}" in text for field in unread):
            unread -= {node.attr for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Attribute)}
    assert {each for each in fields if each.rpartition(".")[2] in unread} == set(), "settings that nothing reads"
