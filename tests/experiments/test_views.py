"""Kinds of views side by side: each is what MLC does with that setting."""

from dataclasses import replace

import numpy as np
import pytest

from unbend.config import PRESETS
from unbend.estimator import MLC
from unbend.experiments.views import BOTH, CACHED, LIVE, NEIGHBORS, ViewRunner, run
from unbend.networks import load_encoder

SETTINGS = {
    "views.n_neighbors": 3,
    "network.width": 8,
    "network.dim": 8,
    "network.head_width": 16,
    "pretrain.epochs": 1,
    "pretrain.min_steps": 4,
    "pretrain.batch_size": 40,
    "stage2.eta": 0.1,
    "stage2.min_steps": 0,
    "stage2.max_steps": 4,
    "stage2.batch_size": 40,
}


def quarters(batch):
    """Four mean values of an image (n, c, h, w)."""
    n, _, h, w = batch.shape
    return np.asarray(batch).reshape(n, -1, h // 2, w // 2).mean((2, 3))


@pytest.fixture
def runner(tiny):
    config = PRESETS["vectors"].override(SETTINGS)
    return ViewRunner(replace(tiny, config=config), load_encoder(quarters, device="cpu"))


@pytest.mark.parametrize(
    ("mode", "source", "n_neighbors"),
    [
        (NEIGHBORS, "neighbors", 3),
        (CACHED, "cached", 0),
        (BOTH, "cached", 3),
        (LIVE._replace(stage1="live"), "live", 0),
    ],
)
def test_a_mode_is_mlc_with_these_views(runner, mode, source, n_neighbors):
    found = runner.mlc(mode, seed=1)
    settings = {**SETTINGS, "views.n_neighbors": n_neighbors}
    model = MLC(
        3, encoder=quarters, views=source, settings=settings, random_state=1, cache_dir=None
    ).fit(runner.problem.X)
    assert np.array_equal(found.labels, model.labels_)
    assert found.encoding > 0
    assert found.training > 0


def test_live_views_of_stage_2_follow_a_cached_stage_1(runner, monkeypatch):
    """The encoder sees A views of each batch of stage 2 and of no batch before it."""
    runner.mlc(CACHED, 0)
    seen = []
    whole = runner.encoder.embed_all
    monkeypatch.setattr(runner.encoder, "embed_all", lambda x: (seen.append(len(x)), whole(x))[1])
    runner.mlc(LIVE, 0)
    assert seen == [40, 40] * 5  # four steps and a look at what the last one left


def test_cached_copies_cost_their_passes(runner):
    assert runner.mlc(CACHED, 0).encoding == sum(runner.encoded(copy)[1] for copy in range(-1, 4))
    assert runner.mlc(NEIGHBORS, 0).encoding == runner.encoded()[1]


def test_the_table_has_a_row_per_kind_of_view(tiny, tmp_path):
    np.savez(tmp_path / "images.npz", X=tiny.X, y=tiny.y)
    table = run(
        data=str(tmp_path / "images.npz"),
        encoder=quarters,
        seeds=2,
        out=tmp_path,
        verbose=False,
        settings=SETTINGS,
    )
    assert [row[0] for row in table.rows] == [
        "MLC, neighbours",
        "MLC, cached copies",
        "MLC, cached copies of neighbours",
        "MLC, cached copies, the paper's λ",
        "MLC, cached copies of neighbours, the paper's λ",
        "MLC, cached copies, the paper's λ, seed 0 alone",
        "MLC, cached copies, live in stage 2, the paper's λ, seed 0 alone",
        "k-means",
        "chance, true sizes",
    ]
    assert "n = 120" in table.caption
    assert all(len(row) == len(table.columns) for row in table.rows)
    assert "±" in table.rows[0][1]
    assert "±" not in table.rows[6][1]
    assert (tmp_path / "views-small.csv").is_file()


def test_vectors_are_rejected(tmp_path):
    np.savez(tmp_path / "v.npz", X=np.eye(8), y=np.arange(8) % 2)
    with pytest.raises(ValueError, match="needs images"):
        run(data=str(tmp_path / "v.npz"), verbose=False)
