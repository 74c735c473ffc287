"""Links of the README and the pages lead somewhere."""

import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    *ROOT.glob("*.md"),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "gallery").glob("*.md")),
]
BLOCK = re.compile(r"^(```|~~~).*?^\1", re.M | re.S)


def text_of(page):
    """A page without its blocks and pieces of code."""
    return re.sub(r"`[^`\n]+`", "code", BLOCK.sub("", page.read_text(encoding="utf-8")))


def anchors(page):
    """Anchors of the headings, as GitHub and MyST make them.

    >>> re.sub(r"[^\\w\\- ]", "", "What it is, and why?".lower()).replace(" ", "-")
    'what-it-is-and-why'
    """
    plain = BLOCK.sub("", page.read_text(encoding="utf-8"))
    headings = [h.replace("`", "") for h in re.findall(r"^#+ (.*)", plain, re.M)]
    return {re.sub(r"[^\w\- ]", "", h.strip().lower()).replace(" ", "-") for h in headings}


def problem_of(page, target):
    """What is wrong with a link of a page; empty if nothing is."""
    if "://" in target:
        parts = urlsplit(target)
        good = parts.scheme in ("http", "https") and "." in (parts.hostname or "")
        return "" if good else f"{target!r} is not an address"
    path, _, anchor = target.partition("#")
    file = (page.parent / path).resolve() if path else page
    generated = file.parent.name == "generated"  # `make docs` writes and checks these
    if not file.exists() and not generated:
        return f"{target!r} does not exist"
    if anchor and not generated and anchor not in anchors(file):
        return f"{file.name} has no heading for #{anchor}"
    return ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    text = text_of(page)
    targets = re.findall(r"\]\(<?([^)\s>]+)>?\)", text) + re.findall(
        r"^\[[^\]]+\]: (\S+)", text, re.M
    )
    assert [p for p in (problem_of(page, target) for target in targets) if p] == []


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ("docs/none.md", "does not exist"),
        ("docs/start.md#nothing", "no heading"),
        ("#nothing", "no heading"),
        ("http:/example", "does not exist"),
        ("ftp://example.org", "not an address"),
        ("https://example", "not an address"),
        ("docs/start.md#install", ""),
        ("https://example.org/a#b", ""),
    ],
)
def test_wrong_links_are_found(target, problem):
    said = problem_of(ROOT / "README.md", target)
    assert problem in said if problem else said == ""
