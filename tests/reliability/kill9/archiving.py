"""A process in which records expire into an archive, until it is killed. Its arguments are a file and a directory."""

from __future__ import annotations

import sys
from pathlib import Path

from azure.cosmos import PartitionKey

from mayflydb.admin import archive_writer
from mayflydb.embedded import serve
from mayflydb.engine.lifecycle import archive_backlog

TARGET = "cosmos:shop/sessions"


def run(file: Path, root: Path) -> None:
    # Many small files: a kill meets each step.
    for module, name, value in (
        (archive_backlog, "FILE_RECORDS", 7),
        (archive_writer, "FILE_RECORDS", 7),
        (archive_writer, "REST_SECONDS", 0.001),
    ):
        setattr(module, name, value)
    with serve(file, port=0, mongo_port=-1, ydb_port=-1, clock="virtual", archive_dir=root) as server:
        shop = server.cosmos.client().create_database_if_not_exists("shop")
        sessions = shop.create_container_if_not_exists("sessions", PartitionKey("/p"), default_ttl=1)
        if not server._controls.ask("GET", "archives")["archives"]:
            server.add_archive("cold", f"file://{root}/cold", every="0s")
        server.set_lifecycle(TARGET, archive="cold")
        begin = server.clock.now().timestamp()
        for turn in range(10_000):
            items = [("create", ({"id": f"{begin:.0f}-{turn}-{n}", "p": "p"},)) for n in range(20)]
            sessions.execute_item_batch(items, "p")
            server.clock.advance(seconds=1)
            print(turn, flush=True)


if __name__ == "__main__":
    run(Path(sys.argv[1]), Path(sys.argv[2]))
