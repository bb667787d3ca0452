"""What the portal takes from npm: the files are whole, licensed and named, and the editor works under the pages' policy."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import json
from pathlib import Path

import pytest
from playwright.sync_api import Route, expect

from mayflydb.embedded import RunningServer
from mayflydb.portal.shell import CONTENT_SECURITY_POLICY
from mayflydb.portal.static import DIRECTORY
from portal.browsing import Watched
from served import Http, port_of

TOOLS = Path(__file__).parents[2] / "tools" / "web"
VENDOR = DIRECTORY / "vendor"
in_memory = pytest.mark.parametrize("store", ["memory"], indirect=True, scope="session")
built = pytest.mark.skipif(not VENDOR.exists(), reason="tools/web.sh says why the editor is not built")

PAGE = """<!doctype html><html lang="en"><head><title>editor</title>
<link rel="stylesheet" href="/_explorer/static/portal.css">
</head><body>
<form action="/sent" method="get"><label for="q">Query</label><textarea id="q" name="q" required>SELECT 1</textarea>
<button>Go</button><button type="reset">Back</button></form>
<textarea id="json" aria-label="Document">{"a": 1}</textarea></body></html>"""
START = """async () => {
    const { createEditor } = await import("/_explorer/static/vendor/editor.js");
    window.q = createEditor(document.getElementById("q"), { language: "sql", nonce: "n0nce", schema: { sessions: ["userId"] } });
    window.json = createEditor(document.getElementById("json"), { language: "json", nonce: "n0nce" });
}"""


def test_words_are_those_of_the_languages() -> None:
    spec = importlib.util.spec_from_file_location("web_words", TOOLS / "words.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (TOOLS / "words.json").read_bytes() == module.words(), "run .venv/bin/python tools/web/words.py"


def test_lock_pins_every_package_and_names_no_host() -> None:
    lock = json.loads((TOOLS / "package-lock.json").read_text())
    packages = {name: entry for name, entry in lock["packages"].items() if name}
    assert len(packages) > 20
    assert [name for name, entry in packages.items() if "integrity" not in entry] == []
    assert [name for name, entry in packages.items() if "resolved" in entry] == []


@built
@in_memory
def test_files_are_served_as_the_manifest_says(server: RunningServer) -> None:
    get = Http(port_of(server))
    manifest = json.loads((VENDOR / "manifest.json").read_text())
    assert {"editor.js.gz", "LICENSES.txt"} == set(manifest["files"])
    for name, sum256 in manifest["files"].items():
        answer = get("GET", f"/_explorer/static/vendor/{name.removesuffix('.gz')}", accept_encoding="gzip")
        assert answer.status == 200
        assert answer.headers.get("content-encoding") == ("gzip" if name.endswith(".gz") else None)
        assert hashlib.sha256(answer.body).hexdigest() == sum256
    licences = (VENDOR / "LICENSES.txt").read_text()
    assert [name for name, version in manifest["packages"].items() if f"{name} {version} (" not in licences] == []
    code = gzip.decompress((VENDOR / "editor.js.gz").read_bytes()).decode()
    plain = get("GET", "/_explorer/static/vendor/editor.js")
    assert (plain.body.decode(), plain.headers.get("content-encoding")) == (code, None)
    assert "eval(" not in code and "new Function" not in code
    assert get("GET", "/_explorer/static/vendor/manifest.json").status == 404
    assert get("GET", "/_explorer/static/vendor/../../shell.py").status == 404


@built
@in_memory
def test_editor_keeps_its_field_in_step_under_the_policy(watched: Watched) -> None:
    page = watched.page()
    policy = CONTENT_SECURITY_POLICY + "; style-src 'self' 'nonce-n0nce'"

    def answer(route: Route) -> None:
        route.fulfill(body=PAGE, content_type="text/html", headers={"content-security-policy": policy})

    page.route("**/_explorer/editor-test", answer)
    page.route("**/sent?*", lambda route: route.fulfill(body="sent", content_type="text/html"))
    page.goto("/_explorer/editor-test")
    page.evaluate(START)

    editor = page.get_by_role("textbox", name="Query")
    assert page.locator("#q").is_hidden()
    assert editor.evaluate("e => getComputedStyle(e).whiteSpace") == "break-spaces"  # Its own style sheet was let in.
    editor.click()
    page.keyboard.press("ControlOrMeta+End")
    page.keyboard.type(" + 1")
    assert page.locator("#q").input_value() == "SELECT 1 + 1"
    page.get_by_text("Back").click()
    expect(editor).to_have_text("SELECT 1")
    page.evaluate("q.value = 'SELECT c.userId FROM c'")
    assert page.locator("#q").input_value() == "SELECT c.userId FROM c"
    assert page.locator(".cm-line span").first.inner_text() == "SELECT"  # A keyword is coloured.
    editor.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Go"

    page.get_by_role("textbox", name="Document").press("ControlOrMeta+Home")
    page.keyboard.type("x")
    page.locator(".cm-lintRange-error, .cm-lintPoint-error").first.wait_for(state="attached")
    editor.press("ControlOrMeta+Enter")
    page.wait_for_url("**/sent?q=SELECT+c.userId+FROM+c")
