"""The built site works from the disk, without a network: `make docs` builds it before the tests."""

import re
from pathlib import Path

import pytest
from tests.browser import launched

SITE = Path(__file__).parents[2] / "docs" / "_build" / "html"
pytestmark = pytest.mark.skipif(
    not (SITE / "searchindex.js").is_file(), reason="the site is not built; run `make docs`"
)


@pytest.fixture(scope="module")
def page():
    with launched() as browser:
        context = browser.new_context(offline=True)
        page = context.new_page()
        page.requests = []
        page.on("request", lambda request: page.requests.append(request.url))
        yield page
        assert [
            url for url in page.requests if not url.startswith(("file:", "data:", "blob:"))
        ] == []


@pytest.mark.parametrize(
    ("word", "title"),
    [
        ("onnxruntime", "Deploy and share"),
        ("umap", "Which method when"),
        ("push_to_hub", "Python interface"),
        ("drop-duplicates", "Commands"),
    ],
)
def test_search_finds_pages_offline(page, word, title):
    page.goto(f"{(SITE / 'search.html').as_uri()}?q={word}")
    page.wait_for_selector("#search-results ul.search li", timeout=30_000)
    page.wait_for_selector(f"#search-results a:has-text('{title}')", timeout=30_000)


def test_reports_of_the_gallery_open_from_the_site(page):
    page.goto((SITE / "gallery" / "reports.html").as_uri())
    links = page.locator("a[href*='reports/']:has(img)")
    assert links.count() == 5
    links.first.click()
    page.wait_for_selector("html[data-ready]")
    assert page.inner_text("h1") == "digits"


def test_no_page_loads_anything_from_elsewhere():
    loads = re.compile(r"""<(?:script|img|link|iframe)[^>]+(?:src|href)=["'](https?:)?//[^"']+""")
    for path in sorted(SITE.rglob("*.html")):
        found = [m[0] for m in loads.finditer(path.read_text(encoding="utf-8"))]
        assert [text for text in found if "canonical" not in text] == [], path.name


def test_formulas_are_mathml_without_stray_underscores():
    page = (SITE / "api.html").read_text(encoding="utf-8")
    formulas = re.findall(r"<math.*?</math>", page, re.DOTALL)
    assert len(formulas) > 10
    assert [f for f in formulas if ">_<" in f or "\\" in f] == []
