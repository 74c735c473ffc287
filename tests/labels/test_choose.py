"""The number of clusters: the rule by itself, and on unions of subspaces."""

from __future__ import annotations

import builtins
import json
import warnings
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.generators.subspaces import union_of_subspaces

from unbend.exceptions import UnbendWarning
from unbend.labels import ModelSelection, Space, choose_n_clusters, label_codes
from unbend.labels.choose import _graph_gaps, _Look, _n_chains, _Table, _with_chains, decide
from unbend.samples import nearest_neighbors
from unbend.samples.graph import graph_spectrum


def table(gap: list[float], stability: dict[int, float]) -> ModelSelection:
    """The rule on gaps after k = 2, 3, … and the stability of the numbers looked at."""
    gaps = np.array(gap)
    ks = np.arange(2, len(gaps) + 2)
    evidence = _Table(ks, gaps[None], gaps[None], np.zeros_like(gaps), np.full_like(gaps, 0.2))
    looks = {k: _Look(np.arange(60) % k, s, 0.3) for k, s in stability.items()}
    return decide(evidence, looks)


def test_separate_parts_of_the_samples_count_more() -> None:
    """Four parts, each of which falls in two a little: eight is stronger, but not by half."""
    gaps = np.full((2, 9), 0.1)
    gaps[:, 2], gaps[:, 6] = 0.97, 0.7
    evidence = _Table(np.arange(2, 11), gaps, gaps, np.zeros(9), np.full(9, 0.2))
    looks = {k: _Look(np.arange(60) % k, 1.0, 0.3) for k in (4, 8)}
    assert evidence.evidence()[6] > evidence.evidence()[2]
    found = decide(evidence, looks)
    assert found.chosen == 4
    assert "the samples fall into 4 separate parts" in found.reason
    features = replace(evidence, whole=np.stack([np.full(9, 0.1), gaps[0]]))
    assert decide(features, {4: looks[4]}).chosen == 4
    assert "the features of stage 1 fall into 4 separate parts" in decide(features, looks).reason


def test_lasting_parts_go_before_unclear_numbers_and_not_before_clear_ones() -> None:
    """Two rings: eleven pieces have more evidence, but halves of the data cut them elsewhere."""
    gaps = np.full((2, 11), 0.1)
    gaps[:, 9] = 0.9
    whole = gaps.copy()
    whole[0, 0] = 1.0
    evidence = _Table(np.arange(2, 13), gaps, whole, np.zeros(11), np.full(11, 0.2))
    looks = {k: _Look(np.arange(60) % k, s, 0.3) for k, s in {2: 0.1, 11: 0.85}.items()}
    assert decide(evidence, looks).chosen == 11
    found = decide(replace(evidence, lasting=2), looks)
    assert (found.chosen, found.interval) == (2, (2, 2))
    assert found.reason == "2: clear, the samples fall into 2 separate parts"
    looks[11] = looks[11]._replace(stability=0.95)
    for own in (0.1, 0.85, 0.95):  # the parts gain nothing by being unclear themselves
        looks[2] = looks[2]._replace(stability=own)
        assert decide(replace(evidence, lasting=2), looks).chosen == 11


def test_the_rings_are_counted_and_not_their_pieces() -> None:
    angle = 2 * np.pi * np.random.default_rng(0).random(600)
    X = np.repeat([1.0, 2.0], 300)[:, None] * np.stack([np.cos(angle), np.sin(angle)], 1)
    X = torch.from_numpy(X + 0.08 * np.random.default_rng(1).standard_normal(X.shape)).float()
    C = torch.nn.functional.normalize(torch.cat([X, torch.ones(600, 1)], 1), dim=1)
    found = choose_n_clusters([Space(X), Space(C)], C)
    assert (found.chosen, found.interval) == (2, (2, 2))
    assert choose_n_clusters([Space(X), Space(C)], C, min_clusters=3).chosen > 2


def test_the_clearest_stable_gap_is_chosen() -> None:
    found = table([0.1, 0.7, 0.1, 0.1], {3: 1.0, 5: 1.0})
    assert (found.chosen, found.interval) == (3, (3, 3))
    assert found.k == [2, 3, 4, 5]
    assert found.stability == [None, 1.0, None, 1.0]
    assert found.reason.startswith("3: clear, halves of the data agree to 100%")


def test_equally_clear_gaps_go_to_the_labels_that_say_more() -> None:
    """Two halves of six groups are as clear as the six."""
    found = table([0.7, 0.1, 0.1, 0.1, 0.7], {2: 1.0, 6: 1.0})
    assert found.chosen == 6
    assert found.interval == (5, 6)


def test_an_unstable_gap_does_not_count() -> None:
    found = table([0.1, 0.6, 0.1, 0.7, 0.1], {3: 1.0, 5: 0.2})
    assert found.chosen == 3


def test_evidence_scattered_around_a_number_supports_it() -> None:
    """Twenty-nine and thirty-one speak for thirty; a lone equal gap far away does not beat them."""
    gaps = np.full(44, 0.02)
    gaps[[27, 28, 29]] = [0.2, 0.18, 0.2]
    gaps[38] = 0.21  # after 40
    found = table(gaps.tolist(), {29: 1.0, 30: 1.0, 31: 1.0, 40: 1.0})
    assert found.chosen == 30
    assert found.interval == (26, 40)
    assert found.candidates[0]["k"] == 30


def test_small_numbers_do_not_blur() -> None:
    found = table([0.1, 0.3, 0.29, 0.1, 0.29], {3: 1.0, 4: 1.0, 6: 1.0})
    strength = dict(zip(found.k, found.strength, strict=True))
    assert strength[3] == pytest.approx(0.3 * 0.3 * np.log(3), rel=1e-3)


def test_the_interval_leaves_out_other_levels_of_detail() -> None:
    """Two halves of ten groups: a candidate, but no end of the interval."""
    found = table([0.6, *[0.1] * 6, 0.2, 0.3, 0.1, 0.1], {2: 1.0, 9: 1.0, 10: 1.0})
    assert found.chosen == 10
    assert found.interval == (9, 11)
    assert 2 in [row["k"] for row in found.candidates]


def test_another_level_that_is_as_strong_is_in_the_interval() -> None:
    """Four and ten are about as strong: the level itself is open. With half the gap it is not."""
    gaps = np.zeros(13)
    gaps[[2, 8]] = 0.7, 0.61  # after 4 and 10, where the average with its neighbours is less
    looks = {4: 1.0, 10: 0.76}
    found = table(gaps.tolist(), looks)
    assert (found.chosen, found.interval) == (4, (4, 10))
    gaps[8] /= 2
    assert table(gaps.tolist(), looks).interval == (4, 4)


def test_small_groups_that_random_parts_thin_out_are_still_separate_parts() -> None:
    """Thirty groups, half of them with as few members as a third of the rows leaves neighbours."""
    rng = np.random.default_rng(0)
    sizes = np.repeat([60, 13], 15)
    C = np.repeat(np.eye(30, 40), sizes, axis=0) + 0.04 * rng.standard_normal((sizes.sum(), 40))
    C = torch.from_numpy(C / np.linalg.norm(C, axis=1, keepdims=True)).float()
    found = choose_n_clusters([Space(C)], C, max_clusters=40)
    assert (found.chosen, found.interval) == (30, (30, 30))


def rings(count: int, each: int) -> tuple[torch.Tensor, np.ndarray]:
    """Closed curves far from each other, in planes of their own."""
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, 2 * np.pi, (count, each))
    X = np.zeros((count, each, 3 * count))
    for i in range(count):
        X[i, :, 3 * i] = np.cos(angle[i])
        X[i, :, 3 * i + 1] = np.sin(angle[i])
        X[i, :, 3 * i + 2] = 0.6
    X = X.reshape(count * each, -1) + 0.01 * rng.standard_normal((count * each, 3 * count))
    return torch.from_numpy(X).float(), np.repeat(np.arange(count), each)


def test_pieces_of_rings_form_chains_and_blobs_do_not() -> None:
    X, _ = rings(4, 300)
    assert _n_chains(X, "euclidean", 24) == 4
    generator = torch.Generator().manual_seed(0)
    blob = torch.randn(1200, 6, generator=generator)
    assert _n_chains(blob, "euclidean", 24) is None


def test_chains_widen_the_interval_downwards_and_say_so() -> None:
    found = table([0.02] * 18 + [0.5] + [0.02] * 5, {20: 1.0})
    assert found.interval == (18, 22)
    wider = _with_chains(found, 5)
    assert (wider.chosen, wider.interval) == (20, (4, 22))
    assert wider.reason.endswith("they lie in about 5 chains, each of which may be one group")
    assert wider.candidates[0]["text"] == wider.reason
    assert _with_chains(found, None) is found


@pytest.mark.parametrize("space", [0, 1])
def test_separate_parts_in_one_space_count_in_full(space: int) -> None:
    """Neither the other space nor numbers nearby take the gap back, and the number is certain."""
    gaps = np.full((2, 24), 0.05)
    gaps[space, 18] = 0.9  # after 20
    gaps[:, 8] = 0.5  # after 10
    evidence = _Table(np.arange(2, 26), gaps, gaps, np.zeros(24), np.full(24, 0.2))
    found = decide(evidence, {k: _Look(np.arange(60) % k, 1.0, 0.3) for k in (10, 20)})
    assert found.chosen == 20
    of_samples = 1.5 if space == 0 else 1.0  # parts of the samples count that much more
    assert found.strength[18] == pytest.approx(of_samples * 0.9 * np.log(20) * 0.3)
    assert found.interval == (20, 20)
    what = ("samples", "features of stage 1")[space]
    assert found.reason == f"20: clear, the {what} fall into 20 separate parts"


def test_few_separate_parts_do_not_hide_many_clear_groups() -> None:
    """Six objects apart from fourteen others: parts are strong evidence, not the last word."""
    gaps = np.full((2, 24), 0.05)
    gaps[0, 4] = 0.85  # six parts of the samples
    gaps[1, 18] = 0.9  # twenty of the features
    evidence = _Table(np.arange(2, 26), gaps, gaps, np.zeros(24), np.full(24, 0.2))
    looks = {6: _Look(np.arange(60) % 6, 0.6, 0.3), 20: _Look(np.arange(60) % 20, 0.9, 0.8)}
    assert decide(evidence, looks).chosen == 20


def test_the_interval_reaches_to_numbers_that_are_about_the_same() -> None:
    gaps = [0.02] * 16
    gaps[11] = 0.5  # after 13, clear but not separate
    found = table(gaps, {13: 1.0})
    assert (found.chosen, found.interval) == (13, (11, 15))


@pytest.mark.parametrize("stability", [0.8, 0.95, 1.0])
def test_steady_is_steady(stability: float) -> None:
    found = table([0.1, 0.7, 0.1, 0.1], {3: stability, 5: 1.0})
    assert found.strength[1] == pytest.approx(0.7 * np.log(3) * 0.3, rel=1e-2)


def test_an_accident_of_one_graph_is_averaged_away() -> None:
    """The gaps of structureless rows: below what one graph alone shows."""
    rows = torch.randn(800, 8, generator=torch.Generator().manual_seed(0))
    one = graph_spectrum(nearest_neighbors(rows, 10), 41)
    accident = ((one[1:-1] - one[2:]) / (1 - one[2:] + 1e-3)).max()
    found = _graph_gaps(rows, "euclidean", 40)
    assert found.shape == (39,)
    assert found.max() < accident


def test_candidates_say_what_they_split_and_join() -> None:
    gaps = np.array([[0.1, 0.75, 0.1, 0.1, 0.7]])
    evidence = _Table(np.arange(2, 7), gaps, gaps, np.zeros(5), np.full(5, 0.2))
    three = np.repeat(np.arange(3), 20)
    six = 2 * three + np.arange(60) % 2
    five = np.where(three < 2, six, 4)  # two of three are halved
    looks = {3: _Look(three, 1.0, 0.3), 6: _Look(five, 0.7, 0.4)}
    found = decide(evidence, looks)
    assert [row["k"] for row in found.candidates] == [6, 3]
    assert found.candidates[1]["text"].endswith("2 of its clusters hold several of the 6")
    one = np.where(three < 1, six, 3 + three)  # one of three is halved
    found = decide(evidence, {**looks, 6: _Look(one, 0.7, 0.4)})
    assert found.candidates[1]["text"].endswith("1 of its clusters holds several of the 6")
    found = decide(evidence, {**looks, 6: _Look(five, 0.2, 0.4)})
    assert [row["k"] for row in found.candidates] == [3, 6]
    assert found.candidates[1]["text"].endswith("splits 2 of the 3")
    assert found.candidates[0]["sizes"] == [0.3333] * 3


@pytest.mark.parametrize(
    ("gap", "stability", "message"),
    [
        ([0.1, 0.1, 0.7], {4: 1.0}, "largest number tried; raise `max_clusters` above 4"),
        ([0.04, 0.05, 0.04], {3: 1.0}, "no number stands out; if you know about how many"),
    ],
)
def test_doubtful_choices_warn(gap: list[float], stability: dict[int, float], message: str) -> None:
    with pytest.warns(UnbendWarning, match=message):
        table(gap, stability)


def test_separate_parts_and_a_number_that_is_given_do_not_warn() -> None:
    """The next gap shows that there are no more parts; of one number nothing can be chosen."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert table([0.1, 0.1, 0.9], {4: 1.0}).chosen == 4
        one = torch.nn.functional.normalize(torch.eye(4).repeat_interleave(30, 0), dim=1)
        found = choose_n_clusters([Space(one)], one, min_clusters=6, max_clusters=6)
    assert found.chosen == 6


def test_halves_with_hardly_more_samples_than_clusters_say_nothing() -> None:
    """All samples are alone in both halves, which is no agreement."""
    X = torch.nn.functional.normalize(torch.rand(40, 6, generator=torch.Generator().manual_seed(0)))
    with pytest.warns(UnbendWarning, match="largest number tried$"):  # it cannot be raised
        found = choose_n_clusters([Space(X)], X, max_clusters=38)
    assert found.stability[-1] is None
    assert found.reason == "38: unsteady, too few samples to compare halves of the data"


def test_the_least_number_lifts_the_largest() -> None:
    """Of 100 samples at most ten clusters are tried, unless more are asked for."""
    generator = torch.Generator().manual_seed(0)
    X = torch.eye(20).repeat_interleave(5, 0) + 0.05 * torch.randn(100, 20, generator=generator)
    X = torch.nn.functional.normalize(X, dim=1)
    found = choose_n_clusters([Space(X)], X, min_clusters=15)
    assert (found.k[0], found.k[-1]) == (15, 30)
    assert found.chosen >= 15


@pytest.mark.parametrize(("k", "imbalance"), [(3, 5.0), (10, 1.0)])
def test_finds_the_number_of_subspaces(k: int, imbalance: float) -> None:
    data = union_of_subspaces(800, k, imbalance=imbalance, seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = label_codes(data.C, data.Z, "auto", eta=0.175, max_clusters=25)
    assert model.n_clusters == k
    assert model.selection is not None
    assert model.selection.interval == (k, k)
    assert [row["k"] for row in model.selection.rows()] == list(range(2, 26))


def test_bounds_are_kept() -> None:
    data = union_of_subspaces(600, 6, seed=0)
    C = torch.from_numpy(data.C)
    assert choose_n_clusters([Space(C)], C, min_clusters=4, max_clusters=9).chosen == 6
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        few = choose_n_clusters([Space(C)], C, max_clusters=4)
        many = choose_n_clusters([Space(C)], C, min_clusters=8, max_clusters=12)
    assert (few.k[0], few.k[-1]) == (2, 4)
    assert (many.k[0], many.k[-1]) == (8, 12)
    assert many.chosen >= 8


def test_eta_belongs_to_k() -> None:
    """At the η of k the k-th eigenvalue of Γ is 0.9; k orthogonal groups leak exp(-1/η) each."""
    C = torch.eye(6).repeat(60, 1) + 0.0
    found = choose_n_clusters([Space(C)], C, max_clusters=8)
    assert found.chosen == 6
    leak = np.exp(-1 / found.eta[found.k.index(6)])
    assert (1 - leak) / (1 + 5 * leak) == pytest.approx(0.9, abs=0.02)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("imbalance", [1.0, 5.0])
def test_finds_the_number_in_nine_of_ten_runs(imbalance: float) -> None:
    hits, inside = [], []
    for k in (3, 5, 10, 20, 50):
        for seed in range(5):
            data = union_of_subspaces(max(1000, 40 * k), k, imbalance=imbalance, seed=seed)
            C = torch.from_numpy(data.C)
            found = choose_n_clusters([Space(C)], C)
            hits.append(found.chosen == k)
            inside.append(found.interval[0] <= k <= found.interval[1])
    assert np.mean(hits) >= 0.9
    assert np.mean(inside) >= 0.95


def test_groups_of_groups_show_both_gaps() -> None:
    """Three tight groups of four clusters each: two gaps, told by the table."""
    rng = np.random.default_rng(0)
    centres = np.repeat(np.eye(3, 40), 4, axis=0) + 0.55 * np.eye(12, 40, k=3)
    C = np.repeat(centres, 80, axis=0) + 0.03 * rng.standard_normal((960, 40))
    C = torch.from_numpy(C / np.linalg.norm(C, axis=1, keepdims=True)).float()
    found = choose_n_clusters([Space(C)], C, max_clusters=20)
    assert found.chosen == 12
    drop = dict(zip(found.k, found.drop, strict=True))
    assert min(drop[3], drop[12]) > max(d for k, d in drop.items() if k not in (3, 12))


def test_structureless_codes_warn() -> None:
    generator = torch.Generator().manual_seed(0)
    C = torch.nn.functional.normalize(torch.randn(600, 32, generator=generator), dim=1)
    with pytest.warns(UnbendWarning, match="no number stands out"):
        choose_n_clusters([Space(C)], C, max_clusters=20)


def test_pilot_of_a_large_set_gives_the_same_number() -> None:
    data = union_of_subspaces(12_000, 6, seed=0)
    C = torch.from_numpy(data.C)
    assert choose_n_clusters([Space(C)], C, max_clusters=12).chosen == 6


def test_selection_survives_json() -> None:
    found = table([0.1, 0.9, 0.1], {3: 1.0, 4: 0.5})
    assert ModelSelection.from_dict(json.loads(json.dumps(asdict(found)))) == found


def test_plot_shows_the_table() -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    found = table([0.1, 0.9, 0.1], {3: 1.0, 4: 0.5})
    axes = found.plot()
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), found.gap)
    np.testing.assert_array_equal(axes.lines[1].get_ydata(), [1.0, 0.5])
    assert "chosen: 3" in [text.get_text() for text in axes.get_legend().get_texts()]
    assert found.plot(ax=axes) is axes


def test_each_candidate_is_described_and_drawn() -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    found = table([0.1, 0.75, 0.1, 0.1, 0.65, 0.1], {3: 1.0, 6: 0.7})
    assert [row["k"] for row in found.candidates] == [6, 3]
    lines = found.describe()
    assert lines[0] == "number of clusters: 6, 3 to 7 are plausible"
    assert [lines[1].strip(), lines[3].strip()] == [row["text"] for row in found.candidates]
    assert lines[2].strip() == ("=" * 10 + "-" * 10) * 3  # six of one size
    assert lines[4].strip() == "=" * 20 + "-" * 20 + "=" * 20
    axes = found.plot_candidates()
    assert {text.get_text() for text in axes.texts} == {row["text"] for row in found.candidates}
    widths = [bar.get_width() for bar in axes.patches]
    np.testing.assert_allclose(widths, found.candidates[1]["sizes"] + found.candidates[0]["sizes"])
    assert found.plot_candidates(ax=axes) is axes


def test_plot_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def refuse(name: str, *arguments: Any, **options: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return original(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ImportError, match=r"pip install unbend\[plot\]"):
        table([0.1, 0.9, 0.1], {3: 1.0, 4: 0.5}).plot()
