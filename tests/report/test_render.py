import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from unbend.report import charts, render
from unbend.report.palette import colours
from unbend.report.render import duration, script_json


class Page(HTMLParser):
    """Elements, attributes and text of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text, self.attributes, self.scripts = [], "", [], []
        self.inside = None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        self.inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, data):
        if self.inside == "script":
            self.scripts[-1] += data
        elif self.inside != "style":
            self.text += data


@pytest.fixture(scope="module")
def html(summary):
    return render(summary)


@pytest.fixture(scope="module")
def page(html):
    return Page(html)


def test_nothing_in_a_name_becomes_markup(html, page, hostile):
    assert page.tags.count("script") == 2
    assert "img" not in page.tags
    assert "digits <b>&</b>" in page.text
    assert "bad/<i>.png" in page.text
    assert "the spectrum has <no> clear gap" in page.text
    assert json.loads(page.scripts[0])["names"][: len(hostile)] == hostile
    assert "\u2028" not in html
    assert "49" not in json.loads(page.scripts[0])["names"][6]


def test_report_makes_no_requests(html, page):
    policies = [v for k, v in page.attributes if k == "content" and "default-src" in v]
    assert policies[0].startswith("default-src 'none'; img-src data: blob:;")
    links = [v for k, v in page.attributes if k in ("src", "href", "action", "data", "srcset")]
    assert all(v.startswith("#") or v == "data:," for v in links)
    without_data = re.sub(r'<script id="data".*?</script>', "", html, flags=re.S)
    assert not re.search(r"https?://|@import|fetch\(|XMLHttpRequest", without_data)
    assert not [k for k, _ in page.attributes if k.startswith("on")]


def test_summary_line_and_sections(page):
    for text in (
        "600 images",
        "10 clusters",
        "are plausible",
        "1 min 23 s",
        "seed 0",
        "unbend 9.9.9",
    ):
        assert text in page.text
    order = ["clusters", "similarity", "spectrum", "training", "map", "doubtful", "tree", "truth"]
    found = [v for k, v in page.attributes if k == "id"]
    assert [i for i in found if i in [*order, "notes"]] == [*order, "notes"]


def test_scores_with_chance_and_table(page, summary):
    truth = summary["truth"]
    for row in (truth["scores"], truth["chance"]):
        for key in ("acc", "nmi"):
            assert f"{row[key]:.3f}" in page.text
    assert "-0.000" not in page.text
    assert "chance" in page.text
    for count in np.array(truth["table"])[np.array(truth["table"]) > 10]:
        assert str(count) in page.text


def test_script_json_is_safe_and_exact():
    tree = {"a": "</script><!--&\u2028\u2029😀", "b": [1.5, None]}
    text = str(script_json(tree))
    assert not set("<>&\u2028\u2029") & set(text)
    assert text.isascii()
    assert json.loads(text) == tree
    with pytest.raises(ValueError, match="JSON"):
        script_json(float("nan"))


def test_packed_numbers_come_back(page, facts, summary):
    import base64

    data = json.loads(page.scripts[0])
    read = {k: np.frombuffer(base64.b64decode(data[k]), "<u2") for k in ("cluster", "x", "y")}
    np.testing.assert_array_equal(read["cluster"], summary["samples"]["cluster"])
    np.testing.assert_allclose(read["x"] / 32500 - 1, summary["samples"]["x"], atol=1e-4)
    probability = np.frombuffer(base64.b64decode(data["probability"]), "<u2") / 1e4
    np.testing.assert_allclose(probability, summary["samples"]["probability"], atol=1e-4)


def test_long_names_are_cut_in_the_middle(summary):
    names = ["x" * 100 + "y" * 1000 + "z" * 100, *summary["samples"]["name"][1:]]
    page = Page(render({**summary, "samples": {**summary["samples"], "name": names}}))
    short = json.loads(page.scripts[0])["names"][0]
    assert len(short) < 180
    assert (short[0], short[-1]) == ("x", "z")


def test_durations_have_readable_units():
    assert [duration(s) for s in (0.04, 59.6, 60, 3599, 3600)] == [
        "0.0 s",
        "1 min 0 s",
        "1 min 0 s",
        "59 min 59 s",
        "1 h 0 min",
    ]


def test_points_of_a_chart_lie_where_their_numbers_say():
    chart = charts.line_chart(
        [{"name": "n", "style": "a", "x": [0, 5, 10], "y": [0.0, None, 2.0], "dots": True}],
        label="l",
        x_label="x",
        marks=[(5, "half")],
    )
    assert chart["marks"] == [{"at": 50.0, "text": "half", "end": False, "row": 0}]
    assert [d[0] for d in chart["lines"][0]["dots"]] == [0.0, 100.0]
    assert chart["lines"][0]["path"].count("M") == 2  # None breaks the line
    assert chart["lines"][0]["path"].startswith("M0 100")


def test_texts_of_near_marks_lie_in_rows():
    line = {"name": "n", "style": "a", "x": [0, 100], "y": [0.0, 1.0]}
    marks = [(0, "stage 1"), (86, "stage 2"), (93, "stage 2, eta 2")]
    chart = charts.line_chart([line], label="l", x_label="x", marks=marks)
    assert [m["row"] for m in chart["marks"]] == [0, 0, 1]
    assert [m["end"] for m in chart["marks"]] == [False, True, True]


def test_branches_of_the_tree_meet_at_the_cost_of_merging():
    chart = charts.tree_chart([[0, 2, 1.0, 2], [1, 3, 2.0, 3]])
    assert chart["leaves"] == [1, 0, 2]
    assert chart["path"].startswith("M0.00 50.00H48.50V83.33H0.00")
    assert charts.tree_chart([[0, 1, 0.0, 2]])["leaves"] == [0, 1]


def test_colours_differ_for_colour_blind_eyes():
    """Simulated deuteranopia (Machado et al., severity 1) keeps the first eight apart."""
    matrix = np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.01182, 0.04294, 0.968881],
        ]
    )
    rgb = np.array([[int(c[i : i + 2], 16) / 255 for i in (1, 3, 5)] for c in colours(8)])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    seen = (linear @ matrix.T).clip(0, 1) ** (1 / 2.2)
    gaps = np.linalg.norm(seen[:, None] - seen[None], axis=-1) + np.eye(8)
    assert gaps.min() > 0.1
    assert len(set(colours(300))) == 300
