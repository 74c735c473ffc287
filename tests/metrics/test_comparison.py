"""The table beside the classics."""

from unbend.metrics.comparison import TimedLabels, compare, timed
from unbend.sources import load_named


def test_rows_state_k_scores_and_seconds():
    """Perfect labels score one, merged ones say their own k, chance is near the largest class."""
    data = load_named("digits")
    table = compare(
        data, {"true": [TimedLabels(data.y, 2.0)], "even": [TimedLabels(data.y % 2, 1.0)]}
    )
    rows = {row[0]: row[1:] for row in table.rows}
    assert list(rows) == [
        "true",
        "even",
        "k-means",
        "spectral clustering",
        "chance, sizes of row 1",
    ]
    assert rows["true"] == ["10", "1.000", "1.000", "1.000", "1.000", "2.0"]
    assert rows["even"][0] == "2"
    assert float(rows["chance, sizes of row 1"][1]) < 0.15
    assert "n = 1797, split = all, 10 classes, 1 seed" in table.caption


def test_timed_returns_what_the_method_returns():
    """The seed reaches the method and the clock runs."""
    result = timed(lambda seed: load_named("digits").y + seed, 3)
    assert result.labels.min() == 3
    assert result.seconds > 0
