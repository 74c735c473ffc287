"""The calibrated recipe from end to end: neighbours, eta and labelling of a fitted MLC."""

import json

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score, homogeneity_score

from unbend import MLC, load
from unbend.config import PRESETS
from unbend.knobs import is_metric

CENTERS = 8 * np.eye(4)
X, Y = make_blobs(200, centers=CENTERS, random_state=0)
COMPARED = ("euclidean", "standardized")  # with four columns
SHORT = {"pretrain_epochs": 4, "settings": {"stage2.min_steps": 4, "stage2.max_steps": 4}}


def stages(model: MLC) -> list[str]:
    return list(dict.fromkeys(row["stage"] for row in model.history_))


@pytest.fixture(scope="module")
def fitted():
    return MLC(n_clusters=4, random_state=0).fit(X)


def test_calibrated_values_are_reported(fitted):
    assert adjusted_rand_score(Y, fitted.labels_) == 1.0
    assert tuple(fitted.neighbors_.scores) == COMPARED
    assert fitted.config_.views.metric == fitted.neighbors_.metric
    assert is_metric(fitted.config_.views.metric)
    best = max(fitted.neighbors_.scores.values())
    assert fitted.neighbors_.scores[fitted.neighbors_.metric] >= best - 1e-4
    assert 0.02 <= fitted.config_.stage2.eta <= 1
    rows = fitted.labelling_
    assert rows == json.loads(json.dumps(rows))
    assert rows[0]["smallest_cluster"] == np.bincount(fitted.labels_).min()
    assert rows[0]["score"] == max(row["score"] for row in rows)
    assert any(row["labelling"].startswith("stage 1: ") for row in rows)
    assert len({row["labelling"].split(":")[0] for row in rows}) == 3  # stage 1, two etas


def test_stage_2_runs_once_for_each_sharpness(fitted):
    assert stages(fitted) == ["stage 1", "stage 2", "stage 2, eta 2"]
    one = MLC(4, random_state=0, pretrain_epochs=4, settings={"stage2.sharpness": [0.8]}).fit(X)
    assert stages(one) == ["stage 1", "stage 2"]
    assert one.config_.stage2.sharpness == (0.8,)


def test_the_same_seed_gives_the_same_result(fitted):
    again = MLC(n_clusters=4, random_state=0).fit(X)
    np.testing.assert_array_equal(fitted.labels_, again.labels_)
    np.testing.assert_array_equal(fitted.transform(X), again.transform(X))
    assert again.labelling_ == fitted.labelling_
    assert again.neighbors_ == fitted.neighbors_
    assert again.config_ == fitted.config_


def test_a_saved_model_keeps_what_was_calibrated(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.labelling_ == fitted.labelling_
    assert loaded.neighbors_ == fitted.neighbors_
    assert loaded.neighbors_.reason() == fitted.neighbors_.reason()
    assert loaded.config_ == fitted.config_
    np.testing.assert_array_equal(loaded.predict(X), fitted.predict(X))


@pytest.mark.parametrize("damage", [3, {"metric": "cosine"}, {"metric": "x", "scores": [1]}])
def test_a_damaged_choice_is_a_damaged_model(fitted, tmp_path, damage):
    fitted.save(tmp_path / "model")
    path = tmp_path / "model" / "model.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"neighbors": damage}))
    with pytest.raises(ValueError, match="is not a model of this version"):
        load(tmp_path / "model")


def test_one_cluster_can_be_asked_for():
    model = MLC(n_clusters=1, random_state=0, **SHORT).fit(X)
    assert set(model.labels_.tolist()) == {0}
    assert stages(model) == ["stage 1", "stage 2"]  # one cluster says nothing about eta


def test_unknown_number_of_clusters():
    """Separate parts are counted, and η is calibrated to their number."""
    model = MLC(random_state=0).fit(X)
    assert model.n_clusters_ == 4
    assert homogeneity_score(Y, model.labels_) == pytest.approx(1)
    assert model.model_selection_ is not None
    assert model.n_clusters_ == model.model_selection_.chosen
    assert tuple(model.neighbors_.scores) == COMPARED
    assert stages(model) == ["stage 1", "stage 2", "stage 2, eta 2"]
    assert model.config_.stage2.eta != 0.175
    smallest = np.bincount(model.labels_).min()
    assert model.labelling_[0]["smallest_cluster"] == smallest


def test_rings_are_found_whole_also_among_new_samples(capsys):
    """k-means, and any split into compact pieces, cuts across both."""
    angle, radius = np.linspace(0, 2 * np.pi, 160), np.repeat([1.0, 2.0], 80)
    rings = np.stack([radius * np.cos(angle * 2), radius * np.sin(angle * 2)], axis=1)
    model = MLC(2, random_state=0, pretrain_epochs=30).fit(rings)
    assert adjusted_rand_score(radius > 1.5, model.labels_) == 1.0
    assert model.labelling_[0]["separate"]
    model.summary()
    assert "separate parts of the neighbour graph" in capsys.readouterr().out
    between = np.stack([radius * np.cos(angle * 2 + 0.03), radius * np.sin(angle * 2 + 0.03)], 1)
    assert adjusted_rand_score(radius > 1.5, model.predict(between)) > 0.9
    assert set(model.neighbors_.scores) == {"euclidean", "standardized"}


@pytest.mark.parametrize("given", [{"eta": 0.3}, {"settings": {"stage2.eta": 0.3}}])
def test_a_number_for_eta_wins(given):
    model = MLC(n_clusters=4, random_state=0, pretrain_epochs=4, **given).fit(X)
    assert model.config_.stage2.eta == 0.3
    assert stages(model) == ["stage 1", "stage 2"]
    assert {row["labelling"].split(":")[0] for row in model.labelling_} == {
        "stage 1",
        "stage 2 at eta 0.3",
    }


def test_a_metric_and_a_join_that_are_given_win():
    settings = {"views.metric": "cosine", "labels.join": "none", **SHORT["settings"]}
    model = MLC(n_clusters=4, random_state=0, pretrain_epochs=4, settings=settings).fit(X)
    assert model.neighbors_.metric == "cosine"
    assert dict(model.neighbors_.scores) == {}
    assert model.labelling_ == []


def test_the_paper_is_not_calibrated():
    paper = PRESETS["paper"].for_problem(60_000, 100)
    assert paper == PRESETS["paper"].override({"views.n_neighbors": 0})
    assert (paper.stage2.eta, paper.labels.join, paper.network.dim) == (0.175, "none", 128)
    model = MLC(n_clusters=4, preset="paper", backbone="mlp", batch_size=64, random_state=0,
                pretrain_epochs=1, epochs=1,
                settings={"network.head_width": 32, "network.width": 16}).fit(X)  # fmt: skip
    assert model.config_.stage2.eta == 0.175
    assert model.config_.views.metric == "euclidean"
    assert model.labelling_ == []
    assert stages(model) == ["stage 1", "stage 2"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"views.metric": "manhattan"}, "'views.metric' must be auto, euclidean"),
        ({"views.metric": "ridge:0"}, "'views.metric' must be auto, euclidean"),
        ({"stage2.eta": 0}, "'stage2.eta' must be from 0.002 to 10, or 'auto'"),
        (
            {"views.augmentation.crop_ratio": (0, 0)},
            r"must be two numbers \[a, b\] with 0 < a <= b",
        ),
        ({"views.augmentation.crop_scale": ("a", "b")}, "with 0 < a <= b <= 4"),
        ({"views.augmentation.jitter": (-3, 5, 0.1, 0.1)}, r"four numbers \[b, c, s, h\]"),
        ({"stage2.eta": "none"}, "'stage2.eta' must be from 0.002 to 10, or 'auto'"),
        ({"stage2.sharpness": 1.5}, "'stage2.sharpness' must be one to four numbers"),
        ({"stage2.sharpness": []}, "'stage2.sharpness' must be one to four numbers"),
        ({"stage2.sharpness": [0.1] * 5}, "'stage2.sharpness' must be one to four numbers"),
        ({"labels.join": "all"}, "'labels.join' must be"),
        ({"stage2.join": "codes"}, "unknown setting 'stage2.join'"),
    ],
)
def test_wrong_settings_give_a_one_line_error(settings, message):
    with pytest.raises(ValueError, match=message) as error:
        MLC(n_clusters=4, settings=settings).fit(X)
    assert "\n" not in str(error.value)


def test_preset_embeddings_was_removed():
    with pytest.raises(ValueError, match="one of auto, paper, images, vectors, simulation, got"):
        MLC(n_clusters=4, preset="embeddings").fit(X)


def test_wide_vectors_are_projected_and_labels_hold_for_the_samples(tmp_path):
    rng = np.random.default_rng(0)
    wide = X @ rng.normal(size=(4, 600)) + 0.1 * rng.normal(size=(len(X), 600))
    model = MLC(4, random_state=0, **SHORT)
    model.set_params(settings={**SHORT["settings"], "views.metric": "cosine"}).fit(wide)
    assert model.config_.network.project == 32
    assert adjusted_rand_score(Y, model.labels_) == 1.0
    np.testing.assert_array_equal(model.predict(wide), model.labels_)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.transform(wide), model.transform(wide))
    settings = {**model.settings, "network.project": 0}
    assert (
        MLC(4, random_state=0, pretrain_epochs=4, settings=settings)
        .fit(wide)
        .config_.network.project
        == 0
    )


def test_standardised_vectors_are_projected_as_the_network_sees_them():
    """Groups that differ in columns of small units are found beside wide columns of noise."""
    rng = np.random.default_rng(0)
    wide = np.hstack([X @ rng.normal(size=(4, 500)), 1e4 * rng.normal(size=(len(X), 64))])
    settings = {"views.metric": "standardized", "stage2.min_steps": 4, "stage2.max_steps": 4}
    model = MLC(4, random_state=0, settings=settings).fit(wide)
    assert model.config_.network.project > 0
    assert adjusted_rand_score(Y, model.labels_) == 1.0


def test_as_many_neighbours_as_samples_are_refused():
    with pytest.raises(ValueError, match="`n_neighbors`=60 must be below the number of samples"):
        MLC(2, n_neighbors=60).fit(np.random.default_rng(0).random((60, 5)))


def test_what_labels_were_made_by_is_said_if_it_was_asked_for(capsys):
    X = np.random.default_rng(0).random((60, 5))
    settings = {"labels.join": "none"}
    MLC(2, random_state=0, pretrain_epochs=2, epochs=1, settings=settings).fit(X).summary()
    assert "labels by line 10 of Algorithm 1, labels.join=none" in capsys.readouterr().out
