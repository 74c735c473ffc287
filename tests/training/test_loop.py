import numpy as np
import pytest
import torch
from torch import nn
from torch.optim import SGD

from unbend.devices import make_fabric
from unbend.functional import coding_rate
from unbend.training import Guard, Stage, Terms, Tools, descend

DIM = 4


def run(n_steps: int, *, with_R_c: bool = False, rank_every: int = 10, lrs: tuple = (0.1, 0.2)):
    """Two linear layers, each with its own optimiser; returns what can be checked."""
    features = torch.randn(n_steps + 1, 12, DIM, generator=torch.Generator().manual_seed(0))
    layers = nn.ModuleList(nn.Linear(DIM, DIM, bias=False) for _ in lrs)
    with torch.no_grad():
        for layer in layers:
            layer.weight.copy_(torch.eye(DIM))
    optimizers = [SGD(m.parameters(), lr) for m, lr in zip(layers, lrs, strict=True)]
    terms, ticks, weights = [], [], []

    def compute(step: int) -> Terms:
        weights.append([layer.weight.detach().clone() for layer in layers])
        Z = sum(layer(features[step]) for layer in layers) / len(lrs)
        R = coding_rate(Z, 0.1)
        terms.append(Terms(-R, R, R / 2 if with_R_c else None, Z))
        return terms[-1]

    guard = Guard(layers, optimizers, "stage 7", DIM, 0.1)
    stage = Stage(
        compute,
        optimizers,
        n_steps=n_steps,
        lr_factor=lambda step: 1 / (1 + step),
        guard=guard,
        rank_every=rank_every,
    )
    history = descend(stage, Tools(make_fabric("cpu"), torch.Generator(), ticks.append))
    weights.append([layer.weight.detach().clone() for layer in layers])
    return history, terms, ticks, weights


def numpy_rank(Z: torch.Tensor) -> int:
    power = np.linalg.svd(Z.detach().numpy(), compute_uv=False) ** 2
    return int(np.argmax(np.cumsum(power) / power.sum() > 0.95)) + 1


@pytest.mark.parametrize("with_R_c", [True, False])
def test_a_row_per_step_holds_the_terms(with_R_c):
    history, terms, _, _ = run(23, with_R_c=with_R_c)
    assert [row["step"] for row in history] == list(range(23))
    for row, term in zip(history, terms, strict=True):
        R = term.R.item()
        assert list(row) == ["stage", "step", "loss", "R", "R_c", "delta_R", "rank", "lr"]
        assert row["stage"] == "stage 7"
        assert (row["loss"], row["R"]) == (pytest.approx(-R), pytest.approx(R))
        assert row["R_c"] == (pytest.approx(R / 2) if with_R_c else None)
        assert row["delta_R"] == (pytest.approx(R / 2) if with_R_c else None)
        assert row["lr"] == pytest.approx(0.1 / (1 + row["step"]))
        ranked = row["step"] % 10 == 0 or row["step"] == 22
        assert row["rank"] == (numpy_rank(term.Z) if ranked else None)


def test_every_optimizer_steps_with_its_own_rate():
    _, _, _, weights = run(5)
    for step in range(5):
        for k, lr in enumerate((0.1, 0.2)):
            moved = weights[step + 1][k] - weights[step][k]
            assert moved.norm() > 0
            other = weights[step + 1][1 - k] - weights[step][1 - k]
            # Both layers see the same gradient, so their steps stand in the ratio of the rates.
            torch.testing.assert_close(moved / lr, other / (0.3 - lr), rtol=1e-3, atol=1e-5)


def test_progress_counts_to_the_end_with_numbers():
    history, _, ticks, _ = run(12, with_R_c=True)
    assert [(t.stage, t.done, t.total) for t in ticks] == [("stage 7", i, 12) for i in range(1, 13)]
    assert ticks[0].values["R"] == history[0]["R"]
    assert ticks[0].values["rank"] == history[0]["rank"]
    assert "rank" not in ticks[1].values
    assert all(isinstance(v, (int, float)) for t in ticks for v in t.values.values())


def test_no_steps_do_nothing():
    history, _, ticks, weights = run(0)
    assert history == []
    assert ticks == []
    assert torch.equal(weights[-1][0], torch.eye(DIM))


def test_descending_lowers_the_loss():
    torch_history, *_ = run(40, lrs=(0.01,))
    first, last = torch_history[:10], torch_history[-10:]
    assert np.mean([r["loss"] for r in last]) < np.mean([r["loss"] for r in first])
