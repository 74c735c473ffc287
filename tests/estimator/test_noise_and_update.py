"""Outliers labelled -1, samples that come later, and clusters among them."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from unbend import MLC, load

RNG = np.random.default_rng(0)
CENTRES = np.array([[0, 0, 0, 0], [9, 0, 0, 0], [0, 9, 0, 0], [0, 0, 9, 0]], dtype=float)
SHORT = {"pretrain_epochs": 4, "epochs": 2}


def blobs(each: int, centres: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(centres)), each)
    return centres[y] + 0.5 * rng.standard_normal((len(y), 4)), y


X, Y = blobs(60, CENTRES[:3], 0)
STRAY = np.array([[4.5, 4.5, 30.0, 0], [-30.0, 0, 0, 9.0]])


@pytest.fixture(scope="module")
def fitted() -> MLC:
    """With settings that give Euclidean neighbours: strays are far, not only at another angle."""
    settings = {"views.metric": "euclidean"}
    return MLC(3, random_state=0, outliers="label", settings=settings, **SHORT).fit(X)


def test_outliers_get_minus_one_where_asked(fitted: MLC) -> None:
    assert set(fitted.predict(STRAY)) == {-1}
    assert set(fitted.assess(STRAY).labels) == {-1}
    noise = fitted.labels_ == -1
    np.testing.assert_array_equal(noise, fitted.outlier_score(X) > fitted.outlier_threshold_)
    assert noise.mean() <= 0.03
    assert fitted.n_clusters_ == 3
    np.testing.assert_array_equal(fitted.labels_at(2) == -1, noise)
    plain = MLC(3, random_state=0, settings=fitted.settings, **SHORT).fit(X)
    np.testing.assert_array_equal(plain.labels_[~noise], fitted.labels_[~noise])
    assert plain.labels_.min() == 0  # off by default
    assert plain.predict(STRAY).min() >= 0


def test_summary_and_card_count_outliers_in_no_cluster(fitted: MLC, capsys) -> None:
    model = copy.copy(fitted)
    model.labels_ = np.where(np.arange(len(X)) < 5, -1, Y)
    model.summary()
    assert "sizes: 55, 60, 60\n" in capsys.readouterr().out
    assert "3 clusters of 175 samples" in model._repr_html_()


def test_noise_survives_saving(fitted: MLC, tmp_path) -> None:
    fitted.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.labels_, fitted.labels_)
    np.testing.assert_array_equal(again.predict(STRAY), [-1, -1])
    assert again.outlier_threshold_ == fitted.outlier_threshold_


def test_update_labels_what_fits_and_finds_the_new_cluster(tmp_path) -> None:
    model = MLC(3, random_state=0, settings={"views.metric": "euclidean"}, **SHORT).fit(X)
    before = model.labels_.copy()
    known, _y = blobs(20, CENTRES[:3], 1)
    first = model.update(known)
    assert first.new_clusters == []
    assert (first.labels >= 0).mean() > 0.9
    fresh = first.labels >= 0
    np.testing.assert_array_equal(first.labels[fresh], model.predict(known)[fresh])

    arriving, _ = blobs(6, CENTRES[3:], 2)
    second = model.update(np.concatenate([arriving, STRAY]))
    assert second.new_clusters == []  # six are too few, strays are no cluster
    assert (second.labels == -1).all()
    more, _ = blobs(40, CENTRES[3:], 3)
    third = model.update(more)
    assert third.new_clusters == [3]
    assert (third.labels == 3).mean() > 0.9
    assert model.updates_[-1]["new_clusters"][0]["had_waited"] >= 5
    assert model.n_clusters_ == 4

    np.testing.assert_array_equal(model.labels_, before)
    later, _ = blobs(25, CENTRES, 4)
    found = model.predict(later)
    assert (found[-25:] == 3).mean() > 0.9
    assert (found[:-25] < 3).all()
    p = model.predict_proba(later)
    assert p.shape == (100, 4)
    np.testing.assert_allclose(p.sum(1), 1)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(later), found)
    assert again.updates_ == model.updates_
    assert again.n_clusters_ == 4


def test_scattered_samples_are_no_cluster(fitted: MLC) -> None:
    model = MLC(3, random_state=0, settings={"views.metric": "euclidean"}, **SHORT).fit(X)
    scattered = 60 * RNG.standard_normal((80, 4))
    found = model.update(scattered)
    assert found.new_clusters == []
    assert found.n_waiting >= 75


@pytest.mark.parametrize("size", [7, 9.5, True])
def test_a_bad_min_size_is_rejected(fitted: MLC, size: object) -> None:
    with pytest.raises(ValueError, match="`min_size` of update must be an integer >= 8"):
        fitted.update(STRAY, min_size=size)


def test_bad_bounds_of_k_and_outliers_are_rejected() -> None:
    with pytest.raises(ValueError, match="`outliers` of MLC must be one of"):
        MLC(3, outliers="drop").fit(X)
    with pytest.raises(ValueError, match="min_clusters=9 of MLC must be at most max_clusters=5"):
        MLC(min_clusters=9, max_clusters=5).fit(X)


def test_the_same_samples_again_wait_once_and_fit_when_their_cluster_is_there() -> None:
    model = MLC(3, random_state=0, settings={"views.metric": "euclidean"}, **SHORT).fit(X)
    one = np.full((1, 4), 40.0)
    found = [model.update(one) for _ in range(25)]
    assert found[-1].new_clusters == []  # one sample is no cluster, however often it comes
    assert found[-1].n_waiting == 1

    few, _ = blobs(6, CENTRES[3:], 2)
    assert model.update(few).n_waiting == 7
    more, _ = blobs(40, CENTRES[3:], 3)
    both = model.update(np.concatenate([few, more]))
    assert both.new_clusters == [3]
    assert both.n_waiting == 1
    size = model.updates_[-1]["new_clusters"][0]["size"]
    assert size == int((both.labels == 3).sum()) == 46
    np.testing.assert_array_equal(model.predict(np.concatenate([few, more])), both.labels)
    assert model.update(more).n_waiting == 1  # these fit now
    assert (model.outlier_score(few) <= model.outlier_threshold_).all()


def test_a_new_cluster_of_the_fewest_samples_is_known_afterwards() -> None:
    model = MLC(3, random_state=0, settings={"views.metric": "euclidean"}, **SHORT).fit(X)
    tight = CENTRES[3] + 0.25 * np.random.default_rng(2).standard_normal((58, 4))
    assert model.update(tight[:8], min_size=np.int64(8)).new_clusters == [3]
    assert (model.predict(tight) == 3).mean() > 0.9


def test_outliers_in_the_fit_do_not_hide_a_new_cluster() -> None:
    """Two of a hundred samples lie far away; quantile .99 of the scores is theirs."""
    dirty = X.copy()
    dirty[: len(X) // 50] = RNG.uniform(-300, 300, (len(X) // 50, 4))
    model = MLC(3, random_state=0, settings={"views.metric": "euclidean"}, **SHORT).fit(dirty)
    assert model.outlier_threshold_ < model._surroundings.quantiles[0.99]
    assert (model.outlier_score(dirty[: len(X) // 50]) > model.outlier_threshold_).all()
    assert (model.outlier_score(X) > model.outlier_threshold_).mean() < 0.02
    arriving, _ = blobs(40, CENTRES[3:], 3)
    assert model.update(arriving).new_clusters == [3]


def test_summary_is_of_the_fit_and_names_outliers_and_updates(capsys) -> None:
    settings = {"views.metric": "euclidean"}
    model = MLC(3, random_state=0, outliers="label", settings=settings, **SHORT).fit(X)
    model.update(blobs(40, CENTRES[3:], 3)[0])
    model.summary()
    said = capsys.readouterr().out
    assert f"{len(X)} samples in 3 clusters" in said
    assert ", 0" not in said
    noise = int((model.labels_ < 0).sum())
    assert f"{noise} outlier{'s' * (noise != 1)} labelled -1" in said
    assert "1 cluster added by 1 update" in said


@pytest.mark.parametrize("k", ["2", None, 2.0, True, 0, 4])
def test_labels_at_wants_a_number_of_clusters(fitted: MLC, k: object) -> None:
    with pytest.raises(ValueError, match="must be an integer from 1 to 3, the number of clusters"):
        fitted.labels_at(k)
    assert len(np.unique(fitted.labels_at(np.int64(2)))) == 2


def test_bounds_are_for_an_unknown_number() -> None:
    with pytest.raises(ValueError, match="`max_clusters` of MLC is for n_clusters='auto'"):
        MLC(3, max_clusters=5).fit(X)
