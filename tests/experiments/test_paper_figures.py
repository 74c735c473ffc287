"""The figures of the paper on a tiny problem."""

import numpy as np
import pytest

from unbend.experiments.paper import figure2, figure3, figure5
from unbend.experiments.paper.trajectory import trajectory
from unbend.experiments.runner import Runner
from unbend.metrics import numerical_rank


@pytest.fixture
def on_tiny(tiny, monkeypatch):
    for module in (figure2, figure3, figure5):
        monkeypatch.setattr(module, "open_problem", lambda *a, **k: tiny)
    return tiny


def test_trajectory_has_a_row_of_ranks_per_epoch(tiny):
    """Before the first epoch and after each; the last one is of the final features."""
    found = trajectory(Runner(tiny), 0)
    assert found.ranks.shape == (tiny.config.stage2.epochs + 1, 4)
    assert found.ranks[0, 0] == numerical_rank(found.Z_before)
    assert found.ranks[-1, 0] == numerical_rank(found.Z)
    assert (found.rates[:, 0] >= found.rates[:, 1]).all()  # Γ is doubly stochastic


def test_figure3_writes_its_table_and_picture(on_tiny, tmp_path):
    """Rates, ranks, similarities in the table; four panels and a colour bar in the picture."""
    table = figure3.run(out=tmp_path, verbose=False)
    assert {row[0] for row in table.rows} >= {"R", "R_c", "ΔR", "rank of all features"}
    assert (tmp_path / "figure3.png").stat().st_size > 10_000
    assert len(figure3.draw(on_tiny, trajectory(Runner(on_tiny), 0)).axes) == 5


def test_figure2_writes_its_table_and_picture(on_tiny, tmp_path):
    """Γ of the batch that is shown is doubly stochastic, and the table says how exactly."""
    table = figure2.run(out=tmp_path, verbose=False)
    assert dict(zip([r[0] for r in table.rows], table.rows, strict=True))["Γ, membership"][1] == (
        "120 × 120"
    )
    C = np.eye(4)[[0, 0, 1, 2]]
    Gamma = figure2._membership(C, 0.1)
    assert np.allclose(Gamma.sum(0), 1)
    assert np.allclose(Gamma.sum(1), 1)
    assert Gamma[0, 1] > 0.4
    assert (tmp_path / "figure2.png").is_file()


def test_principal_images_are_nearest_to_the_axes():
    """On data along three known axes each row shows the samples of one, strongest first."""
    Z = np.repeat(np.eye(3), [5, 3, 2], axis=0)
    rows, energy = figure5.principal_images(Z, n_directions=3, n_images=2)
    assert [{0, 1, 2, 3, 4}, {5, 6, 7}, {8, 9}] == [
        next(s for s in ({0, 1, 2, 3, 4}, {5, 6, 7}, {8, 9}) if set(line) <= s) for line in rows
    ]
    assert np.allclose(energy, [0.5, 0.3, 0.2])


def test_principal_images_do_not_depend_on_signs():
    """The sign of a singular vector is arbitrary, the side with more energy is not."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(40, 5)) + 0.3
    Z /= np.linalg.norm(Z, axis=1, keepdims=True)
    rows, _ = figure5.principal_images(Z)
    flipped, _ = figure5.principal_images(-Z)
    assert np.array_equal(rows, flipped)


def test_figure5_writes_its_table_and_picture(on_tiny, tmp_path):
    """A block per cluster; clusters and samples add up."""
    table = figure5.run(out=tmp_path, verbose=False)
    assert sum(int(row[1]) for row in table.rows) == 120
    assert (tmp_path / "figure5.png").is_file()


def test_figure5_needs_images(monkeypatch, tiny):
    """Vectors cannot be shown."""
    from dataclasses import replace

    vectors = replace(tiny, X=tiny.X.reshape(120, -1))
    monkeypatch.setattr(figure5, "open_problem", lambda *a, **k: vectors)
    with pytest.raises(ValueError, match="figure5 shows images"):
        figure5.run(verbose=False)
