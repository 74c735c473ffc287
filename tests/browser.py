"""A real browser for the tests of pages."""

import os
import shutil
from contextlib import contextmanager

import pytest

playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
if CHROMIUM is None and os.environ.get("CI") != "true":
    message = "Chromium is not installed, so no page is tested in a browser"
    pytest.skip(message, allow_module_level=True)

DESKTOP, PHONE = {"width": 1280, "height": 880}, {"width": 390, "height": 844}
# What Chromium says of its own software rendering
NOISY = ("GL Driver Message", "software WebGL", "WebGL-")


@contextmanager
def launched():
    """Chromium, until the context ends."""
    assert CHROMIUM is not None, "CI must test pages in a browser; install chromium"
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@contextmanager
def visiting(browser, check):
    """A function that opens an address; at the end no page may have reported an error.

    ``check(page, requests)`` is called at the end with the addresses that a page has requested,
    apart from those of its own memory.
    """
    pages = []

    def go(address, viewport=DESKTOP, scheme="light"):
        page = browser.new_page(viewport=viewport, color_scheme=scheme)
        page.set_default_timeout(60_000)
        page.trouble, page.requests = [], []
        page.on("console", lambda m: page.trouble.append(m.text))
        page.on("pageerror", lambda e: page.trouble.append(str(e)))
        page.on("request", lambda r: page.requests.append(r.url))
        page.goto(address)
        page.wait_for_selector("html[data-ready]")
        page.address = address
        pages.append(page)
        return page

    yield go
    for page in pages:
        assert [t for t in page.trouble if not any(word in t for word in NOISY)] == []
        check(page, [u for u in page.requests if not u.startswith(("blob:", "data:"))])
        page.close()


def serious_issues(page):
    """Serious accessibility issues that axe-core finds."""
    from axe_playwright_python.sync_playwright import Axe

    return [
        (v["id"], v["nodes"][0]["html"][:200])
        for v in Axe().run(page).response["violations"]
        if v["impact"] in ("serious", "critical")
    ]
