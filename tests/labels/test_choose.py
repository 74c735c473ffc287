"""The number of clusters: the rule by itself, and on unions of subspaces."""

from __future__ import annotations

import builtins
import json
import warnings
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
import torch
from tests.generators.subspaces import union_of_subspaces

from unbend.exceptions import UnbendWarning
from unbend.labels import ModelSelection, label_codes
from unbend.labels.choose import choose_n_clusters, decide

OPTIONS = {"eta": 0.175, "eps_sq": 0.1, "absolute": False, "tol": 1e-4, "seed": 0}


def table(gap: list[float], length: list[float], stability: list[float]) -> ModelSelection:
    gaps = np.array(gap)
    return decide(1 - np.cumsum(gaps) / 10, gaps, np.array(length), np.array(stability))


def test_a_clear_gap_decides_against_the_coding_length() -> None:
    found = table([0.1, 0.9, 0.1, 0.1], [9, 5, 4, 3, 2], [1, 1, 1, 1])
    assert (found.chosen, found.interval) == (3, (3, 3))
    assert found.k == [2, 3, 4, 5]
    assert found.coding_length == [5, 4, 3, 2]


def test_the_coding_length_decides_between_two_gaps() -> None:
    found = table([0.1, 0.8, 0.1, 0.9, 0.1], [9, 8, 5, 7, 6, 4], [1, 1, 1, 1, 1])
    assert (found.chosen, found.interval) == (3, (3, 5))
    found = table([0.1, 0.8, 0.1, 0.9, 0.1], [9, 8, 7, 6, 5, 4], [1, 1, 1, 1, 1])
    assert found.chosen == 5


def test_an_unstable_gap_does_not_count() -> None:
    found = table([0.1, 0.6, 0.1, 0.9, 0.1], [9, 8, 7, 6, 5, 4], [1, 1, 1, 0.3, 1])
    assert found.chosen == 3


@pytest.mark.parametrize(
    ("gap", "length", "message"),
    [
        ([0.1, 0.1, 0.9], [9, 8, 7, 6], "largest candidate, raise `max_clusters` above 4"),
        ([0.04, 0.05, 0.04], [9, 8, 7, 6], "no eigengap is clear"),
        ([0.9, 0.1, 0.1], [5, 8, 9, 9], "single cluster would have a shorter code"),
    ],
)
def test_doubtful_choices_warn(gap: list[float], length: list[float], message: str) -> None:
    with pytest.warns(UnbendWarning, match=message):
        table(gap, length, [1, 1, 1])


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


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("imbalance", [1.0, 5.0])
def test_finds_the_number_in_nine_of_ten_runs(imbalance: float) -> None:
    hits = []
    for k in (3, 5, 10, 20, 50):
        for seed in range(5):
            data = union_of_subspaces(max(1000, 40 * k), k, imbalance=imbalance, seed=seed)
            C, Z = torch.from_numpy(data.C), torch.from_numpy(data.Z)
            hits.append(choose_n_clusters(C, Z, **{**OPTIONS, "seed": seed}).chosen == k)
    assert np.mean(hits) >= 0.9


def test_groups_of_groups_keep_both_numbers_open() -> None:
    """Three tight groups of four clusters each: two gaps, told by the table."""
    rng = np.random.default_rng(0)
    centres = np.repeat(np.eye(3, 40), 4, axis=0) + 0.55 * np.eye(12, 40, k=3)
    C = np.repeat(centres, 80, axis=0) + 0.03 * rng.standard_normal((960, 40))
    C = torch.from_numpy(C / np.linalg.norm(C, axis=1, keepdims=True)).float()
    found = choose_n_clusters(C, C, max_clusters=20, **{**OPTIONS, "eta": 0.3})
    gap = dict(zip(found.k, found.gap, strict=True))
    assert min(gap[3], gap[12]) > 2 * max(g for k, g in gap.items() if k not in (3, 12))
    assert found.interval == (3, 12)
    length = dict(zip(found.k, found.coding_length, strict=True))
    assert found.chosen == min((3, 12), key=length.__getitem__)


def test_structureless_codes_warn() -> None:
    generator = torch.Generator().manual_seed(0)
    C = torch.nn.functional.normalize(torch.randn(600, 32, generator=generator), dim=1)
    with pytest.warns(UnbendWarning, match="no eigengap is clear"):
        choose_n_clusters(C, C, max_clusters=20, **OPTIONS)


def test_pilot_of_a_large_set_gives_the_same_number() -> None:
    data = union_of_subspaces(30_000, 6, seed=0)
    C, Z = torch.from_numpy(data.C), torch.from_numpy(data.Z)
    assert choose_n_clusters(C, Z, max_clusters=12, **OPTIONS).chosen == 6


def test_selection_survives_json() -> None:
    found = table([0.1, 0.9, 0.1], [9, 8, 7, 6], [1, 1, 1])
    assert ModelSelection.from_dict(json.loads(json.dumps(asdict(found)))) == found


def test_plot_shows_the_table() -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    found = table([0.1, 0.9, 0.1], [9, 8, 7, 6], [1, 1, 0.5])
    axes = found.plot()
    np.testing.assert_array_equal(axes.lines[1].get_ydata(), found.stability)
    assert "chosen: 3" in [text.get_text() for text in axes.get_legend().get_texts()]
    assert found.plot(ax=axes) is axes


def test_plot_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def refuse(name: str, *arguments: Any, **options: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return original(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ImportError, match=r"pip install unbend\[plot\]"):
        table([0.1, 0.9, 0.1], [9, 8, 7, 6], [1, 1, 1]).plot()
