"""Hints in the words of the surface that shows them: one row for each hint that surfaces word otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from mayflydb.model.errors import MayflyError
from mayflydb.model.hints import Hint

Surface = Literal["http", "cli", "python", "page"]


class Words(msgspec.Struct, frozen=True):
    """A hint for each surface, as a format of its values. Empty: as for HTTP."""

    http: str
    cli: str
    python: str = ""
    page: str = ""


WORDS: Final[Mapping[str, Words]] = {
    "clock-back": Words(
        'nothing stored is newer: add "force": true',
        "nothing stored is newer: mayfly clock set TIME --force",
        "nothing stored is newer: clock.set(to, force=True)",
        "nothing stored is newer: mayfly clock set TIME --force",
    ),
    "clock-newer": Words(
        "POST /_mayfly/snapshots/NAME/restore goes back to a snapshot of before, GET /_mayfly/snapshots lists them; or delete"
        " everything: POST /_mayfly/reset",
        "mayfly snapshot restore NAME goes back to a snapshot of before, mayfly snapshot list names them; or delete everything:"
        " mayfly reset",
        "restore(name) goes back to a snapshot of before; or delete everything: reset()",
        "go back to a snapshot of before, on the page Snapshots",
    ),
    "clock-newer-than-host": Words(
        "POST /_mayfly/snapshots/NAME/restore goes back to a snapshot of before, GET /_mayfly/snapshots lists them; or stop the"
        " server and run mayfly clock reject --storage {storage}: it keeps everything, and goes back to the host's time",
        "mayfly snapshot restore NAME goes back to a snapshot of before, mayfly snapshot list names them; or stop the server, and"
        " mayfly clock reject --storage {storage} keeps everything, and goes back to the host's time",
        "restore(name) goes back to a snapshot of before; or stop the server and run mayfly clock reject --storage {storage}",
        "go back to a snapshot of before, on the page Snapshots; or stop the server and run mayfly clock reject --storage"
        " {storage}: it keeps everything, and goes back to the host's time",
    ),
    "snapshot-later": Words(
        "restore it on a virtual clock: POST /_mayfly/clock/freeze, or serve with --clock virtual",
        "restore it on a virtual clock: mayfly clock freeze, or mayfly serve --clock virtual",
        'restore it on a virtual clock: clock.freeze(), or serve(clock="virtual")',
        "restore it on a virtual clock: stop the clock on its page, or serve with --clock virtual",
    ),
    "process-clock": Words(
        "move the clock of the tests' process, or stop this one: POST /_mayfly/clock/freeze",
        "move the clock of the tests' process, or stop this one: mayfly clock freeze",
        "travel with time_machine or freezegun, or stop this clock: clock.freeze()",
        "move the clock of the tests' process, or stop this one on its page",
    ),
    "no-time-travel": Words(
        "serve with --allow-time-travel (server.allow_time_travel)",
        "mayfly serve --allow-time-travel",
        "serve(allow_time_travel=True)",
    ),
    "shared-clock": Words(
        "for tests, serve with --clock virtual --allow-time-travel",
        "for tests: mayfly serve --clock virtual --allow-time-travel",
        'for tests: serve(clock="virtual", allow_time_travel=True)',
    ),
    "no-target": Words(
        "GET /_mayfly/ttl names all targets",
        "mayfly ttl list names all targets",
        "stats() names all targets",
        "the tree names all targets",
    ),
    "no-index-in-container": Words(
        "leave index and field out", "leave --index and --field out", page="leave the index and the field out"
    ),
    "pk-needed": Words("add pk=VALUE", "add --pk VALUE", page="give the partition key"),
    "pk-parts": Words('write pk as a JSON array: ["a","b"]', """write it as a JSON array: --pk '["a","b"]'"""),
    "no-pk": Words("leave pk out", "leave --pk out", page="leave the partition key out"),
    "ttl-index": Words("name an index or a field", "name one: --index NAME, or --field NAME"),
    "no-such-index": Words("it has {names}; or name a field", "--index with one of {names}; or --field NAME"),
    "ttl-column": Words(
        "name one: column", "name one: --column NAME", 'name one: column="NAME"', "choose one under TTL settings"
    ),
    "units": Words("unit is one of {names}", "--unit with one of {names}"),
    "no-unit": Words("leave unit out", "leave --unit out"),
    "buckets": Words(
        "1 to 1000 buckets, each 1us or longer", "--buckets from 1 to 1000, each 1us of --horizon or longer"
    ),
    "event-streams": Words(
        "close one, or serve with --event-streams N", "close one, or mayfly serve --event-streams N"
    ),
    "no-mongo": Words("serve with --mongo-port", "mayfly serve --mongo-port 27017", "serve(mongo_port=0)"),
    "no-ydb": Words("serve with --ydb-port", "mayfly serve --ydb-port 2136", "serve(ydb_port=0)"),
    "no-snapshot": Words(
        "GET /_mayfly/snapshots names all of them",
        "mayfly snapshot list names all of them",
        page="the page Snapshots names all of them",
    ),
    "too-many-snapshots": Words(
        "delete one: DELETE /_mayfly/snapshots/NAME",
        "delete one: mayfly snapshot delete NAME",
        page="delete one on the page Snapshots",
    ),
    "no-server": Words(
        "start one, or give the address or the ready file of one that runs",
        "mayfly serve, or --url with the address or ready file of a running one",
    ),
    "no-ready-file": Words("start the server with --ready-file", "mayfly serve --ready-file"),
    "wrong-address": Words(
        "give an address such as http://127.0.0.1:8081", "check --url, such as http://127.0.0.1:8081"
    ),
    "outcome-unknown": Words(
        "look at what is there before you ask again: GET /_mayfly/stats, GET /_mayfly/clock",
        "look at what is there before you ask again: mayfly status, mayfly clock show",
        "look at what is there before you ask again: stats(), clock.now()",
    ),
    "under-hold": Words(
        "POST /_mayfly/hold-release, with who releases {name} and why",
        "mayfly hold release {name} --why TEXT --by WHO",
        "release_hold({name!r}, why=..., by=...)",
    ),
    "token": Words(
        "send the token that the server's log tells the place of: Authorization: Bearer ...",
        "mayfly --token-file PATH; the server's log tells the place of the token",
    ),
    "tls": Words(
        "use https, or serve with --insecure", "mayfly --url with https instead of http, or mayfly serve --insecure"
    ),
}


def word_hint(hint: Hint | str, surface: Surface) -> str:
    """Return a hint in the words of a surface. A text is the same for all."""
    if isinstance(hint, str):
        return hint
    words = WORDS[hint.key]
    return (getattr(words, surface) or words.http).format_map(hint.values)


def hint_of(error: MayflyError) -> Hint | str:
    """Return the hint of an error; empty where it has none."""
    hint = error.detail.get("hint", "")
    return hint if isinstance(hint, Hint) else str(hint)


def hint_in(problem: Mapping[str, object]) -> Hint | str:
    """Return the hint of a problem document, for a surface of its own. A key of another version: the text that came with it."""
    try:
        hint = Hint(str(problem["hint_key"]), msgspec.convert(problem.get("hint_values", {}), dict[str, str]))
        word_hint(hint, "http")
    except (KeyError, ValueError):
        return str(problem.get("hint") or "")
    return hint
