import numpy as np
import pytest

from unbend.experiments import pretraining
from unbend.experiments.pretraining import CONFIGS, run
from unbend.metrics import knn_accuracy
from unbend.samples import prepare
from unbend.sources import load_named

TINY = {
    "network.width": 4,
    "network.dim": 8,
    "network.head_width": 16,
    "pretrain.epochs": 1,
    "pretrain.min_steps": 0,
    "pretrain.head_steps": 1,
    "pretrain.batch_size": 60,
}


def test_a_row_per_method_beside_pixels(tmp_path):
    methods = ("none", "byol")
    table = run(
        seeds=2, out=tmp_path, data=("digits",), n_samples=120, methods=methods, settings=TINY
    )
    assert [row[0] for row in table.rows] == ["pixels", "network at random", "byol"]
    data = load_named("digits")
    pixels = knn_accuracy(prepare(data.X[:120])[0], data.y[:120], 20)
    assert table.rows[0][1] == f"{pixels:.3f}"
    for row in table.rows[1:]:
        means = [float(cell.split(" ± ")[0]) for cell in row[1:3]]
        assert all(0.1 < value <= 1 for value in means)
    assert "n = 120" in table.caption
    assert (tmp_path / "pretraining.md").is_file()


def test_a_second_run_trains_nothing(monkeypatch):
    chosen = {"seeds": 1, "data": ("digits",), "n_samples": 120, "methods": ("moco",)}
    first = run(**chosen, settings=TINY, verbose=False)

    def again(*args, **kwargs):
        raise AssertionError("trained again")

    monkeypatch.setattr(pretraining, "train_encoder", again)
    assert run(**chosen, settings=TINY, verbose=False).rows == first.rows
    other = {**TINY, "pretrain.lr": 1e-3}
    with pytest.raises(AssertionError, match="trained again"):
        run(**chosen, settings=other, verbose=False)


def test_a_data_set_by_name_and_its_own_number_of_seeds():
    chosen = {"n_samples": 120, "methods": ("none",), "settings": TINY, "verbose": False}
    table = run(data="digits", **chosen)
    assert "digits n = 120, split = all, 3 seeds, mean ± sd" in table.caption
    with pytest.raises(ValueError, match="`data` of pretraining must be of digits, cifar10, got"):
        run(data="mnist", **chosen)


def test_photographs_get_the_papers_augmentation_and_no_neighbors():
    views = CONFIGS["cifar10"].views
    assert views.n_neighbors == 0
    assert views.augmentation.crop_scale == (0.04, 1.0)
    assert np.isclose(views.augmentation.grayscale, 0.2)
