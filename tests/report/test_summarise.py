from dataclasses import replace

import numpy as np
import pytest

from unbend.config import PRESETS
from unbend.metrics import numerical_rank
from unbend.report import Facts, render, summarise
from unbend.report.facts import calibration_of
from unbend.samples import NeighborChoice


def test_counts_and_confidence(facts, summary):
    assert (summary["n"], summary["k"]) == (600, 10)
    assert summary["confidence"] == pytest.approx(facts.probability.mean())
    for q, cluster in enumerate(summary["clusters"]):
        own = facts.labels == q
        assert cluster["size"] == own.sum()
        assert cluster["share"] == own.mean()
        assert cluster["confidence"] == pytest.approx(facts.probability[own].mean())
        assert sum(cluster["histogram"]) == own.sum()
        assert cluster["rank"] == numerical_rank(facts.features[own])
        assert cluster["n_outliers"] == (own & (facts.outlier_score > 0.29)).sum()
        top = np.bincount(facts.y[own]).argmax()
        assert cluster["classes"][0]["name"] == f"class {top}"
        assert cluster["classes"][0]["share"] == pytest.approx((facts.y[own] == top).mean())


def test_slots_name_the_right_samples(facts, summary):
    samples = summary["samples"]
    index = np.array(samples["index"])
    assert samples["name"] == [facts.names[i] for i in index]
    assert samples["cluster"] == facts.labels[index].tolist()
    np.testing.assert_array_equal(samples["probability"], facts.probability[index])
    for slot in range(0, len(index), 37):
        tile = summary["thumbnails"][samples["thumbnail"][slot]]
        np.testing.assert_array_equal(tile, facts.thumbnails[index[slot]])
    for q, cluster in enumerate(summary["clusters"]):
        assert set(facts.labels[index[cluster["examples"]]]) == {q}
        for row in cluster["principal"]:
            assert set(facts.labels[index[row["slots"]]]) == {q}


def test_principal_images_are_closest_to_the_component(facts, summary):
    own = np.flatnonzero(facts.labels == 3)
    Z = facts.features[own].astype(np.float64)
    v = np.linalg.svd(Z, full_matrices=False)[2][0]
    index = np.array(summary["samples"]["index"])
    nearest = [set(own[np.argsort(-s * (Z @ v))[:8]]) for s in (1, -1)]
    assert set(index[summary["clusters"][3]["principal"][0]["slots"]]) in nearest


def test_uncertain_samples_and_outliers_are_sorted_worst_first(facts, summary):
    index = np.array(summary["samples"]["index"])
    np.testing.assert_array_equal(
        index[summary["uncertain"]], np.argsort(facts.probability)[: len(summary["uncertain"])]
    )
    np.testing.assert_array_equal(
        index[summary["outliers"]], np.argsort(-facts.outlier_score)[: len(summary["outliers"])]
    )
    assert summary["n_outliers"] == (facts.outlier_score > 0.29).sum()


def test_similarity_is_the_cosine_ordered_by_cluster(facts, summary):
    found = summary["similarity"]
    assert found["matrix"].dtype == np.uint8
    assert found["matrix"].shape == (480, 480)
    np.testing.assert_array_equal(np.diag(found["matrix"]), 255)
    assert found["between"] < 0.1 < 0.3 < found["within"]
    sizes = np.diff(found["bounds"])
    assert len(sizes) == 10
    labels = np.repeat(found["clusters"], sizes)
    cosine = found["matrix"] / 255
    same = labels[:, None] == labels
    np.fill_diagonal(same, False)
    assert cosine[same].mean() == pytest.approx(found["within"], abs=2e-3)
    for a in range(10):
        off = (labels == a)[:, None] & (labels == a) & ~np.eye(480, dtype=bool)
        assert cosine[off].mean() == pytest.approx(found["blocks"][a][a], abs=3e-3)


def test_similarity_of_all_rows_against_the_features(facts):
    few = replace(
        facts,
        **{n: getattr(facts, n)[:100] for n in ("labels", "names", "features", "y")},
        probability=None,
        outlier_score=None,
        thumbnails=None,
        thumbnail_index=None,
    )
    found = summarise(few)["similarity"]
    order = np.argsort(few.labels, kind="stable")
    exact = np.abs(few.features[order].astype(np.float64) @ few.features[order].T)
    np.testing.assert_allclose(found["matrix"] / 255, exact.clip(0, 1), atol=2.1e-3)


def test_spectrum_history_choice(summary):
    assert summary["spectrum"]["gap"] == pytest.approx(0.9 - 0.4)
    one, two = summary["history"]
    assert (one["name"], one["n_steps"], one["R_c"]) == ("stage 1", 30, None)
    assert (two["R"][-1], two["R_c"][-1], two["delta_R"][-1]) == (109, 31, 78)
    assert (two["rank_step"], two["rank"]) == ([0, 10], [20, 30])
    assert summary["choice"]["how"] == "auto"
    assert "9 to 10 are plausible" in summary["choice"]["text"]
    assert summary["choice"]["rows"][8]["k"] == 10


def test_long_histories_are_thinned_but_keep_their_ends(facts):
    rows = [{"stage": "s", "step": i, "R": float(i)} for i in range(5000)]
    (stage,) = summarise(replace(facts, history=rows, features=None))["history"]
    assert len(stage["step"]) == 600
    assert (stage["step"][0], stage["step"][-1], stage["R"][-1]) == (0, 4999, 4999.0)


def test_map_of_large_data_is_sampled(facts):
    found = summarise(facts, n_map=100)
    assert found["map"]["n_shown"] == 100
    x = np.array(found["samples"]["x"])
    assert np.isfinite(x[found["map"]["slots"]]).all()
    assert np.isnan(np.delete(x, found["map"]["slots"])).all()
    assert "100 of 600 samples are shown" in render(found)


def test_labels_alone_are_enough():
    found = summarise(Facts(labels=np.array([0, 1, 1]), names=["a", "b", "c"]))
    for key in ("similarity", "spectrum", "map", "tree", "truth", "thumbnails", "confidence"):
        assert found[key] is None
    assert found["choice"]["how"] == "given"
    page = render(found)
    assert "Cluster 1" in page
    assert 'id="map"' not in page


def test_one_cluster_and_empty_clusters():
    Z = np.random.default_rng(0).standard_normal((9, 4))
    one = Facts(labels=np.zeros(9, dtype=int), names=list("abcdefghi"), features=Z)
    assert summarise(one)["similarity"]["between"] is None
    assert "Cluster 0" in render(summarise(one))
    tree = np.array([[0, 1, 1.0, 2], [2, 3, 2.0, 3]])
    gap = replace(one, merge_tree=tree, probability=np.ones(9))
    assert [c["size"] for c in summarise(gap)["clusters"]] == [9, 0, 0]
    assert "Cluster 2" in render(summarise(gap))


def test_bad_facts_are_named(facts):
    with pytest.raises(ValueError, match="`names` of the report must have one entry per sample"):
        replace(facts, names=["a"])
    with pytest.raises(ValueError, match="at least one sample"):
        Facts(labels=np.array([], dtype=int), names=[])
    with pytest.raises(ValueError, match="belong together"):
        replace(facts, thumbnail_index=None)
    with pytest.raises(ValueError, match="must be uint8"):
        replace(facts, thumbnails=facts.thumbnails.astype(float))
    with pytest.raises(ValueError, match="must name a sample below 600"):
        replace(facts, thumbnail_index=facts.thumbnail_index + 1)
    with pytest.raises(TypeError, match="with a model only"):
        summarise(facts, y=facts.y)


def test_calibration_puts_the_chosen_metric_first():
    config = PRESETS["vectors"].override({"stage2.eta": 0.2, "network.dim": 20})
    choice = NeighborChoice("cosine", {"euclidean": 0.8, "cosine": 0.9, "ridge:0.03": 0.85})
    rows = [{"labelling": "stage 1: k-means of the codes", "score": 0.5, "smallest_cluster": 7}]
    found = calibration_of(config, choice, rows)
    assert [m["name"] for m in found["metrics"]] == ["cosine", "ridge:0.03", "euclidean"]
    assert (found["eta"], found["dim"], found["labelling"]) == (0.2, 20, rows)
    assert found["reason"] == choice.reason()
    without = calibration_of(config.override({"views.n_neighbors": 0}), choice, rows)
    assert without["reason"] == "no neighbours as views"


def test_the_page_tells_the_calibration_and_is_silent_without_it(facts):
    choice = NeighborChoice("cosine", {"euclidean": 0.8123, "cosine": 0.9})
    rows = [
        {
            "labelling": "<b>stage 1</b>",
            "score": 0.51234,
            "smallest_cluster": 7,
            "separate": True,
        }
    ]
    config = PRESETS["vectors"].override({"stage2.eta": 0.2})
    known = replace(facts, calibration=calibration_of(config, choice, rows))
    page = render(summarise(known, n_map=50))
    assert "How it was calibrated" in page
    assert "0.812" in page
    assert "0.512" in page
    assert "&lt;b&gt;stage 1&lt;/b&gt; (separate parts)" in page
    assert "How it was calibrated" not in render(summarise(facts, n_map=50))
