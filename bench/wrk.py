"""Many requests at a time: wrk (https://github.com/wg/wrk) with a script of requests that were signed beforehand."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from signed import COLLECTION, IDS, headers, item


def raw(method: str, path: str, fields: Mapping[str, str], port: int, body: bytes = b"") -> str:
    """A whole request."""
    length = {"Content-Length": str(len(body))} if body else {}
    lines = [f"{name}: {value}" for name, value in {"Host": f"127.0.0.1:{port}", **fields, **length}.items()]
    return "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", body.decode()])


def reads(port: int) -> list[str]:
    """Point reads of all ids."""
    links = [f"{COLLECTION}/docs/i{number}" for number in range(IDS)]
    return [raw("GET", f"/{link}", headers("GET", "docs", link), port) for link in links]


def upserts(port: int, collection: str = COLLECTION) -> list[str]:
    """Upserts of all ids."""
    fields = headers("POST", "docs", collection)
    fields |= {"x-ms-documentdb-is-upsert": "True", "Content-Type": "application/json"}
    return [raw("POST", f"/{collection}/docs", fields, port, item(f"i{number}")) for number in range(IDS)]


def nothings(port: int) -> list[str]:
    """The same headers as reads, on a path that does nothing."""
    fields = headers("GET", "docs", f"{COLLECTION}/docs/i1")
    return [raw("GET", "/_mayfly/live", fields, port)]


class Wrk:
    """The load generator, if it is installed; its scripts lie in `place`."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self.program = shutil.which("wrk")

    def script(self, name: str, requests: Sequence[str]) -> Path:
        """A script that sends these requests in turn."""
        path = self._place / f"{name}.lua"
        # A Lua string of plain ASCII is spelled as in JSON.
        listed = ",\n".join(json.dumps(request) for request in requests)
        turn = "local n = 0\nfunction request() n = n + 1; return requests[n % #requests + 1] end\n"
        path.write_text(f"local requests = {{\n{listed}\n}}\n{turn}", encoding="ascii")
        return path

    def rate(self, port: int, script: Path, connections: int, seconds: float) -> float:
        """Requests per second; RuntimeError when an answer was no success, since refusals are quick."""
        assert self.program is not None
        command = [self.program, "-t1", f"-c{connections}", f"-d{seconds:g}", "-s", str(script)]
        done = subprocess.run(
            [*command, f"http://127.0.0.1:{port}"], capture_output=True, text=True, timeout=seconds + 30, check=True
        )
        if "Non-2xx" in done.stdout or "Socket errors" in done.stdout:
            raise RuntimeError(f"{script.name} against port {port}: {done.stdout}")
        found = re.search(r"Requests/sec:\s+([\d.]+)", done.stdout)
        assert found is not None
        return float(found[1])
