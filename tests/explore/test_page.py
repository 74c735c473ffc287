"""The page in a real browser: a whole session by mouse, one by keyboard, two tabs, any screen."""

import csv

import numpy as np
import pytest
from tests.browser import PHONE, serious_issues, visiting
from tests.explore.conftest import write_run

from unbend.explore import read_curation
from unbend.workflows import export


@pytest.fixture
def visit(browser):
    """Open a server's page; it may ask nobody else, and never with the token."""

    def check(page, requests):
        base = page.address.split("/#")[0]
        assert [u for u in requests if not u.startswith(base)] == []
        assert not any("token" in u.split("#")[0] for u in requests)

    with visiting(browser, check) as go:
        yield lambda served, **options: go(served.address, **options)


def revision(page, number):
    page.wait_for_selector(f"html[data-revision='{number}']")


def spots(page, rows):
    """Where samples lie on the screen, by an independent computation."""
    box = page.locator("#points").bounding_box()
    data = page.points[rows].astype(float) / 32767.5 - 1
    w, h = box["width"], box["height"]
    s = min(w, h) * 0.46
    wide, tall = max(1, min(1.35, w / h)), max(1, min(1.35, h / w))
    return np.stack(
        [box["x"] + w / 2 + data[:, 0] * s * wide, box["y"] + h / 2 - data[:, 1] * s * tall], 1
    )


def test_a_whole_session_by_mouse(visit, serve, run, digits, tmp_path):
    _, _, labels, _ = digits
    served, ask = serve(run)
    page = visit(served)
    page.points = np.frombuffer(ask("points"), "<u2").reshape(-1, 2)
    # merge two by their boxes
    page.check("[data-mark='1']")
    page.check("[data-mark='2']")
    page.click("#merge-go")
    revision(page, 1)
    assert page.locator("[data-group='2']").count() == 0
    # split, previewed
    page.click("[data-group='1']")
    page.wait_for_selector("#panel[data-group='1']")
    page.click("#split")
    page.wait_for_selector(".part")
    assert page.locator(".part").count() == 2
    assert served.session.revision == 1  # a preview changes nothing
    page.click("#dialog .foot .primary")
    revision(page, 2)
    assert page.locator("[data-group='10']").count() == 1
    # rename
    page.click("#rename")
    page.fill("#dialog input", "<i>ones</i>")
    page.keyboard.press("Enter")
    revision(page, 3)
    assert page.inner_text("[data-group='1'] .name") == "<i>ones</i>"
    # lasso around what lies near a member of cluster 4, then move it to a new cluster
    x, y = spots(page, np.flatnonzero(labels == 4)[:1])[0]
    page.click("#lasso")
    page.mouse.move(x - 40, y - 40)
    page.mouse.down()
    corners = [(40, -40), (40, 40), (-40, 40), (-40, -40)]
    for dx, dy in corners:
        page.mouse.move(x + dx, y + dy, steps=3)
    page.mouse.up()
    page.wait_for_selector("#chosen:not([hidden])")
    places = spots(page, np.arange(600))
    expected = np.flatnonzero((np.abs(places - [x, y]) < 38).all(1))
    chosen = int(page.inner_text("#chosen-text").split()[0])
    loose = np.flatnonzero((np.abs(places - [x, y]) < 42).all(1))
    assert len(expected) <= chosen <= len(loose)
    page.click("#fresh")
    revision(page, 4)
    moved = np.flatnonzero(read_curation(run, labels).labels() == 11)
    assert set(expected.tolist()) <= set(moved.tolist()) <= set(loose.tolist())
    page.click("#undo")
    revision(page, 5)
    # move one by hand from the gallery
    page.click("[data-group='0']")
    page.wait_for_selector("#panel[data-group='0']")
    page.click("#gallery [data-i='0']")
    page.click("#move")
    page.fill("#dialog input", "cluster 5")
    page.click("[data-choice='5']")
    revision(page, 6)
    # reload: everything is there
    page.reload()
    page.wait_for_selector("html[data-ready]")
    assert page.inner_text("[data-group='1'] .name") == "<i>ones</i>"
    page.click("#keep")
    page.wait_for_selector("#kept")
    with (run / "curated.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    curation = read_curation(run, labels)
    assert [int(r["cluster"]) for r in rows] == curation.labels().tolist()
    assert {r["name"] for r in rows if r["cluster"] == "1"} == {"<i>ones</i>"}
    assert export(run, "csv", curated=True, out=tmp_path / "out.csv").is_file()
    assert page.evaluate("window.hacked") is None


def test_keyboard_only_from_start_to_export(visit, serve, run, digits):
    _, _, labels, _ = digits
    served, _ = serve(run)
    page = visit(served)
    press = page.keyboard.press
    press("j")  # the next cluster, 1
    page.wait_for_selector("#panel[data-group='1']")
    press("r")
    page.keyboard.type("ones")
    press("Enter")
    revision(page, 1)
    press("m")
    page.wait_for_selector("[data-choice]")
    page.keyboard.type("Cluster 7")
    press("Enter")
    revision(page, 2)
    press("s")
    page.wait_for_selector(".part")
    press("Enter")
    revision(page, 3)
    press("g")
    press("ArrowRight")
    press("Shift+ArrowRight")
    page.wait_for_selector("#chosen:not([hidden])")
    press("x")  # two to noise
    revision(page, 4)
    press("u")
    revision(page, 5)
    press("Shift+U")
    revision(page, 6)
    press("3")  # the review queue
    page.wait_for_selector("[data-key='y']")
    press("y")
    revision(page, 7)
    press("1")
    press("/")
    page.keyboard.type("digit_599")
    press("Enter")
    page.wait_for_selector("#gallery[data-count='1']")
    press("Escape")
    press("e")
    page.wait_for_selector("#kept")
    curation = read_curation(run, labels)
    assert curation.name(1) == "ones"
    assert (curation.labels() == -1).sum() == 2
    assert not (curation.labels() == 7).any()
    assert (run / "curated.parquet").is_file()


def test_other_ways_to_look_and_act(visit, serve, run, digits):
    """Colour, brush, nearest samples, comparison, merge tree, search for a cluster."""
    _, _, labels, _ = digits
    served, ask = serve(run)
    page = visit(served)
    page.points = np.frombuffer(ask("points"), "<u2").reshape(-1, 2)
    page.select_option("#colour", label="by confidence")
    page.wait_for_selector("#legend .ramp")
    # brush over one sample
    x, y = spots(page, np.flatnonzero(labels == 6)[:1])[0]
    page.click("#brush")
    page.mouse.move(x - 4, y)
    page.mouse.down()
    page.mouse.move(x + 4, y, steps=3)
    page.mouse.up()
    page.wait_for_selector("#chosen:not([hidden])")
    distance = np.hypot(*(spots(page, np.arange(600)) - [x, y]).T)
    chosen = int(page.inner_text("#chosen-text").split()[0])
    assert (distance < 16).sum() <= chosen <= (distance < 24).sum()
    page.keyboard.press("Escape")
    # a sample, its nearest ones, and from there the next
    page.click("[data-group='5']")
    page.wait_for_selector("#panel[data-group='5']")
    page.keyboard.press("g")
    page.keyboard.press("Enter")
    page.wait_for_selector(".near")
    assert page.locator(".near button").count() == 24
    title = page.inner_text("#dialog-title")
    page.locator(".near button").first.click()
    page.wait_for_selector(f"#dialog-title:not(:text-is('{title}'))")
    page.keyboard.press("Escape")
    # two clusters side by side; one sample goes across
    page.keyboard.press("Escape")
    page.keyboard.press("c")
    page.click("[data-choice='8']")
    page.wait_for_selector("#compare-1 [data-i='0']")
    assert page.inner_text(".half >> nth=1").startswith("Cluster 8")
    page.click("#compare-0 [data-i='0']")
    page.click("text=Move selected across")
    revision(page, 1)
    moved = np.flatnonzero(read_curation(run, labels).labels() != labels)
    assert len(moved) == 1
    assert labels[moved[0]] == 5
    # the merge tree: look, then merge
    page.keyboard.press("2")
    page.wait_for_selector(".tree .join")
    page.locator(".cost").first.click()
    page.locator(".tree .join").last.click()
    revision(page, 2)
    left = set(read_curation(run, labels).labels().tolist())
    assert len(left) == 9
    # a cluster is found by its name
    page.keyboard.press("1")
    page.fill("#search", f"cluster {max(left)}")
    page.keyboard.press("Enter")
    page.wait_for_selector(f"#panel[data-group='{max(left)}']")


def test_near_duplicates_are_selected_but_one(visit, serve, digits, tmp_path):
    images, _, labels, Z = digits
    pick = np.r_[np.arange(40), 3, 3, 7]  # two copies of one, one of another
    run = write_run(tmp_path / "twice", labels[pick], Z[pick], images=images[pick])
    page = visit(serve(run)[0])
    for row, alike in ((3, 2), (7, 1)):
        page.click(f"[data-group='{labels[row]}']")
        page.wait_for_selector(f"#panel[data-group='{labels[row]}']")
        page.click("#duplicates")
        page.click(f"text=Select {alike}")
        assert page.inner_text("#chosen-text") == f"{alike} selected"


def test_the_gallery_holds_only_what_is_seen(visit, serve, tmp_path):
    n = 100_000
    run = write_run(tmp_path / "large", np.zeros(n, int), np.ones((n, 1), np.float32))
    (run / "features.npy").unlink()
    page = visit(serve(run)[0])
    page.wait_for_selector(f"#gallery[data-count='{n}']")
    page.keyboard.press("g")
    page.keyboard.press("End")
    page.wait_for_selector(f"#gallery [data-i='{n - 1}']")
    assert page.locator("#gallery [data-i]").count() < 200


def test_two_tabs_and_a_stopped_server(visit, serve, run):
    served, _ = serve(run)
    first, second = visit(served), visit(served)
    first.keyboard.press("r")
    first.keyboard.type("seen by both")
    first.keyboard.press("Enter")
    revision(second, 1)
    assert second.inner_text("[data-group='0'] .name") == "seen by both"
    _, _ = first, served.stop()
    second.wait_for_selector("#status.wrong")
    for page in (first, second):  # the next question fails, as it must
        page.trouble.clear()


def hold(page, part):
    """Keep the answers to some questions back, until they are released."""
    held = []
    page.route(f"**/api/{part}**", lambda route: held.append(route))
    return held


def release(page, held):
    with page.expect_response(held[0].request.url):
        held[0].continue_()
    page.wait_for_timeout(200)  # for what the page does with it


def test_a_late_answer_replaces_nothing_newer(visit, serve, run, digits):
    _, _, labels, _ = digits
    page = visit(serve(run)[0])
    page.wait_for_selector("#panel[data-group='0']")
    # a cluster that was asked for before a search comes after what was found
    held = hold(page, "members")
    page.click("[data-group='3']")
    page.fill("#search", "hacked")
    page.press("#search", "Enter")
    page.wait_for_selector("#gallery[data-count='2']")
    release(page, held)
    assert page.get_attribute("#gallery", "data-count") == "2"
    assert "hacked" in page.inner_text("#group-title")
    page.unroute("**/api/members**")
    # what was found comes after a cluster that was opened since
    held = hold(page, "search")
    page.fill("#search", "digit_5")
    page.press("#search", "Enter")
    page.click("[data-group='4']")
    page.wait_for_selector("#panel[data-group='4']")
    release(page, held)
    assert page.get_attribute("#gallery", "data-count") == str((labels == 4).sum())
    assert "4" in page.inner_text("#group-title")
    assert page.inner_text("#chosen-text") == "2 selected"  # those of the first search


def test_names_of_samples_are_text(visit, serve, run):
    page = visit(serve(run)[0])
    page.fill("#search", "hacked")
    page.press("#search", "Enter")
    page.wait_for_selector("#gallery[data-count='2']")
    page.locator("#gallery [data-i='0']").dblclick()
    page.wait_for_selector(".facts")
    assert "<script>" in page.inner_text("#dialog-title")
    assert page.evaluate("window.hacked") is None
    assert page.inner_text("#title") == "digits <b>&</b>"


def test_a_field_of_a_closed_dialog_takes_no_keys(visit, serve, run):
    page = visit(serve(run)[0])
    page.keyboard.press("s")
    page.wait_for_selector(".part")
    # In one task, so that the browser cannot move the focus in between.
    page.evaluate("""() => {
        const field = document.activeElement;
        document.getElementById("dialog").close();
        field.dispatchEvent(new KeyboardEvent("keydown", { key: "3", bubbles: true }));
    }""")
    page.wait_for_selector(".verdicts")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_accessible(visit, serve, run, scheme):
    page = visit(serve(run)[0], scheme=scheme)
    assert serious_issues(page) == []
    page.keyboard.press("2")
    page.wait_for_selector(".tree")
    page.keyboard.press("s")
    page.wait_for_selector(".part")
    assert serious_issues(page) == []
    page.keyboard.press("Escape")
    page.wait_for_selector(".part", state="hidden")  # keys go to the dialog while it is open
    page.keyboard.press("3")
    page.wait_for_selector(".verdicts")
    page.locator("#gallery [data-i='0']").click()
    assert serious_issues(page) == []


def test_phone(visit, serve, run):
    page = visit(serve(run)[0], viewport=PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    page.click(".switch [data-show=stage]")
    page.wait_for_selector("#stage[data-view]")
    assert page.locator("#points").bounding_box()["height"] > 400
    page.click(".switch [data-show=panel]")
    page.wait_for_selector("#gallery [data-i='0']")  # visible, once the first cluster is open
    assert serious_issues(page) == []


def test_read_only_page_offers_no_change(visit, serve, run):
    page = visit(serve(run, read_only=True)[0])
    assert page.inner_text("#status") == "read-only"
    for button in ("rename", "merge", "split", "keep", "undo"):
        assert page.is_disabled(f"#{button}")
    page.keyboard.press("r")
    assert not page.locator("#dialog").is_visible()
