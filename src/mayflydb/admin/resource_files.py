"""Reads resource documents from files: JSON, TOML, and files of items beside them."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from mayflydb.admin.resources import Resources, convert
from mayflydb.model.errors import BadRequest

FORMS: Final = (".json", ".toml", ".yaml", ".yml", ".yql")


def find(paths: list[Path]) -> list[Path]:
    """Return the files, those of a folder in the order of their names. BadRequest for one that is not there."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            found += sorted(each for each in path.iterdir() if each.suffix in FORMS and each.is_file())
        elif path.is_file():
            found.append(path)
        else:
            raise BadRequest(f"there is no file {path}")
    return found


def read(path: Path) -> Resources:
    """Return the document of a file. BadRequest for one that holds none; OSError."""
    text = path.read_bytes()
    if path.suffix == ".yql":
        return convert({"ydb": {"statements": [text.decode("utf-8")]}}, str(path))
    document = _decode(path, text)
    if isinstance(document, dict):
        for container in _containers(document):
            if "items_file" in container:
                place = path.parent / str(container.pop("items_file"))
                container["items"] = [*container.get("items", []), *_read_items(place)]
    return convert(document, str(path))


def _decode(path: Path, text: bytes) -> Any:
    try:
        match path.suffix:
            case ".json":
                return msgspec.json.decode(text)
            case ".toml":
                return tomllib.loads(text.decode("utf-8"))
            case ".yaml" | ".yml":
                return _decode_yaml(text)
            case _:
                raise BadRequest(f"{path} is none of {', '.join(FORMS)}")
    except ValueError as error:
        raise BadRequest(f"{path}: {error}") from error


def _decode_yaml(text: bytes) -> Any:
    try:
        import yaml
    except ImportError as error:
        raise BadRequest(
            "YAML is not installed here", hint='pip install "mayflydb[yaml]", or write JSON or TOML'
        ) from error
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def _containers(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for database in document.get("databases") or ():
        if isinstance(database, dict):
            yield from (each for each in database.get("containers") or () if isinstance(each, dict))


def _read_items(path: Path) -> list[Any]:
    text = path.read_bytes()
    try:
        if path.suffix == ".jsonl":
            return [msgspec.json.decode(line) for line in text.splitlines() if line.strip()]
        items = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise BadRequest(f"{path}: {error}") from error
    return items if isinstance(items, list) else [items]
