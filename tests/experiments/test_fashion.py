"""The table of Fashion-MNIST: what is compared, and that finished work is not done twice."""

from dataclasses import replace

import pytest

from unbend.config import PRESETS
from unbend.experiments import fashion, runner, stages
from unbend.experiments.problem import open_problem
from unbend.sources.named.registry import NAMED_SETS


@pytest.fixture
def small_fashion(monkeypatch, tiny):
    """The tiny problem in the place of the images."""
    monkeypatch.setattr(fashion, "_open", lambda scale: tiny)


def test_mlc_and_its_peers_each_have_a_row_over_seeds(small_fashion, tmp_path):
    table = fashion.run(seeds=2, out=tmp_path, verbose=False)
    names = [row[0] for row in table.rows]
    peers = ["k-means on pixels", "landmark spectral on pixels"]
    assert names == ["MLC", "MLC, every second image", *peers, "chance"]
    assert "n = 120, split = part, 3 classes, 2 seeds" in table.caption
    columns = dict(zip(table.columns, zip(*table.rows, strict=True), strict=True))
    means = [float(cell.split(" ± ")[0]) for cell in columns["ACC"]]
    assert means[2] > 0.8  # three classes of digits are easy for k-means
    assert means[4] < 0.5  # and nobody guesses them
    assert columns["stage I, s"][0]
    assert columns["stage I, s"][1:] == ("", "", "", "")
    assert (tmp_path / "fashion.json").is_file()


def test_the_second_row_scores_every_second_image(tiny):
    labels = tiny.y.copy()
    labels[::2] = 0  # the others are wrong
    cells = fashion._unseen(tiny, [runner.RunResult(labels, tiny.X, 0.0)])
    assert cells[:2] == ["1.000", "1.000"]


def test_a_second_run_takes_what_the_first_has_done(small_fashion, monkeypatch):
    first = fashion.run(seeds=1, verbose=False)

    def again(*args, **kwargs):
        raise AssertionError("this was done before")

    monkeypatch.setattr(stages, "solve", again)
    monkeypatch.setattr(runner.baselines.KMeans, "fit", again)
    assert fashion.run(seeds=1, verbose=False).rows == first.rows


def test_settings_are_those_of_the_preset_but_for_a_few(monkeypatch):
    def few(store, split):
        digits = NAMED_SETS["digits"].load(store, "all")
        return digits[0][:400], digits[1][:400]

    recipe = replace(NAMED_SETS["fashion-mnist"], load=few)
    monkeypatch.setitem(NAMED_SETS, "fashion-mnist", recipe)
    monkeypatch.setitem(fashion.LIMITS, "small", 100)
    full, small = fashion._open("full"), fashion._open("small")
    assert (len(full.y), full.split) == (800, "all")  # train and test
    assert (len(small.y), small.split) == (100, "all, 100 of 800 samples")
    assert full.config == open_problem("digits").config.override(fashion.SETTINGS)
    assert full.config.pretrain.method == PRESETS["images"].pretrain.method == "tcr"


def test_an_unknown_scale_is_rejected():
    with pytest.raises(ValueError, match="`scale` must be one of small, full, got 'huge'"):
        fashion.run(scale="huge")
