"""A browser without scripts: pages, their forms, and what comes back when a form is sent."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any
from urllib.parse import quote, urlencode

from served import Answer, Http


class Page(HTMLParser):
    """What a page shows: its text by `data-test`, its alerts, and the fields of its settings form."""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self.status = answer.status
        self.source = answer.body.decode()
        self.fields: dict[str, str] = {}
        self.texts: dict[str, str] = {}
        self.alert = ""
        self.disabled: set[str] = set()
        self._open: list[tuple[str, str]] = []
        self._area = ""
        self.feed(self.source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        name = given.get("name", "")
        if tag == "input" and (given.get("type") != "radio" or "checked" in given):
            self.fields[name] = given.get("value", "")
        if tag == "textarea":
            self._area = name
            self.fields[name] = ""
        hook = "alert" if given.get("role") == "alert" else given.get("data-test", "")
        if hook:
            self.texts.setdefault(hook, "")
        if tag not in ("input", "meta", "link", "img"):
            self._open.append((tag, hook))

    def handle_endtag(self, tag: str) -> None:
        self.handle_data(" " if not self._area else "")
        while self._open and self._open.pop()[0] != tag:
            pass
        if tag == "textarea":
            self._area = ""

    def handle_data(self, data: str) -> None:
        if self._area:
            self.fields[self._area] += data
        for _, hook in self._open:
            if hook:
                self.texts[hook] += data

    @property
    def alert_text(self) -> str:
        """The text of its alerts, empty where there is none."""
        return " ".join(self.texts.get("alert", "").split())

    def text(self, hook: str) -> str:
        """The text of an element, its spaces made one."""
        return " ".join(self.texts[hook].split())


class Visitor:
    """Keeps the one cookie there is, and follows redirects as browsers do."""

    def __init__(self, port: int) -> None:
        self._http = Http(port)
        self.origin = f"http://127.0.0.1:{port}"
        self._cookie = ""

    def get(self, path: str, **headers: str) -> Page:
        """A page."""
        return Page(self._send("GET", path, None, headers))

    def json(self, path: str) -> Any:
        """The twin of a page."""
        answer = self._send("GET", path, None, {})
        assert answer.status == 200, answer
        return answer.json

    def post(self, path: str, fields: dict[str, str], **headers: str) -> Page:
        """A form, and the page that follows."""
        body = urlencode(fields).encode()
        given = {"origin": self.origin, "content_type": "application/x-www-form-urlencoded", **headers}
        answer = self._send("POST", path, body, given)
        if answer.status == 303:
            return self.get(answer.headers["location"])
        return Page(answer)

    def _send(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Answer:
        given = {"accept": "text/html", **headers}
        if self._cookie:
            given["cookie"] = self._cookie
        answer = self._http(method, path, body, **given)
        cookie = answer.headers.get("set-cookie")
        if cookie is not None:
            assert "HttpOnly" in cookie and "samesite=strict" in cookie.lower()
            value = cookie.partition(";")[0]
            self._cookie = "" if value.endswith('=""') else value
        return answer

    def settings(self, database: str, container: str) -> SettingsForm:
        """The form of a container, as it is now."""
        return SettingsForm(self, f"/_explorer/cosmos/{quote(database, safe='')}/{quote(container, safe='')}/settings")


class SettingsForm:
    """Filled in and sent; `page` is what is shown."""

    def __init__(self, visitor: Visitor, address: str) -> None:
        self._visitor = visitor
        self.address = address
        self.page = visitor.get(address)

    def fill(self, **fields: str) -> SettingsForm:
        """By the names that the fields have."""
        assert fields.keys() <= self.page.fields.keys() | {"timeToLive", "throughputMode"}
        self.page.fields.update(fields)
        return self

    def press(self, action: str, **headers: str) -> Page:
        """One of the buttons: save, discard, preview."""
        sent = {**self.page.fields, "action": action}
        sent.pop("back", None)
        self.page = self._visitor.post(self.address, sent, **headers)
        return self.page
