"""Pages in Chromium, and what is wrong with them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize

WIDE: ViewportSize = {"width": 1280, "height": 900}
NARROW: ViewportSize = {"width": 390, "height": 844}

_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
_NARROW_RULES = ["color-contrast", "link-in-text-block", "target-size"]
"""What another width and other colours can change."""

_AXE = "async (only) => (await axe.run({resultTypes: ['violations'], preload: false, runOnly: only})).violations"


class Lent:
    """A browser that stays open between tests. Its event loop counts as running in this thread all the time, so it is put
    out of sight while nobody uses the browser: other tests have loops of their own.
    """

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._loop = asyncio._get_running_loop()
        asyncio._set_running_loop(None)

    @contextmanager
    def borrowed(self) -> Iterator[Browser]:
        self.take_back()
        try:
            yield self._browser
        finally:
            asyncio._set_running_loop(None)

    def take_back(self) -> None:
        """Before Playwright is stopped."""
        asyncio._set_running_loop(self._loop)


class Watched:
    """Opens pages and keeps what their console complains of, and every address that is not the server's."""

    def __init__(self, browser: Browser, base: str) -> None:
        self._browser = browser
        self.base = base
        self.complaints: list[str] = []
        self.strangers: list[str] = []
        self.expected = ""
        self._contexts: list[BrowserContext] = []

    def page(self, **options: Any) -> Page:
        """A page of a new browser context: `color_scheme`, `java_script_enabled`, `viewport`."""
        context = self._browser.new_context(base_url=self.base, **options)
        context.set_default_timeout(30_000)
        self._contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: self._heard(message.type, message.text))
        page.on("pageerror", lambda error: self._heard("error", str(error)))
        page.on("request", lambda request: self._seen(request.url))
        return page

    def close(self) -> None:
        for context in self._contexts:
            context.close()

    def _heard(self, kind: str, text: str) -> None:
        if kind in ("error", "warning") and not (self.expected and self.expected in text):
            self.complaints.append(text)

    def _seen(self, url: str) -> None:
        if not url.startswith(self.base + "/"):
            self.strangers.append(url)


def faults(page: Page, axe: str) -> list[str]:
    """What axe says, with the element it says it of, and which windows are too narrow: in a wide and light window, and in a
    narrow and dark one.
    """
    # Run as the debugger does it, which the page's own rules for scripts do not concern.
    page.evaluate(axe)
    found = []
    for window, rules in ((WIDE, _RULES), (NARROW, _NARROW_RULES)):
        page.set_viewport_size(window)
        page.emulate_media(color_scheme="light" if window is WIDE else "dark")
        # The editor takes the colours of the other scheme with the next frame.
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        for each in page.evaluate(_AXE, rules):
            found += [f"{window['width']}: {each['id']}: {node['html'][:160]}" for node in each["nodes"]]
        found += [f"{window['width']}: scrolled to the side"] * is_scrolled(page)
    page.set_viewport_size({"width": 320, "height": 640})
    found += ["320: scrolled to the side"] * is_scrolled(page)
    page.set_viewport_size(WIDE)
    return found


def is_scrolled(page: Page) -> bool:
    return bool(page.evaluate("() => document.documentElement.scrollWidth > innerWidth"))


def reach(page: Page, selector: str) -> None:
    """Press Tab until the focus is there."""
    for _ in range(80):
        page.keyboard.press("Tab")
        if page.locator(f"{selector}:focus").count():
            return
    raise AssertionError(f"Tab does not reach {selector}")
