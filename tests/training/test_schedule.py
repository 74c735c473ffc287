import math

import pytest

from unbend.training import n_steps, warmup_cosine

CASES = [(100, 0.1), (100, 0.0), (7, 0.5), (1, 0.1), (2, 0.5), (1000, 0.01), (10, 1.0)]


@pytest.mark.parametrize(("total", "warmup"), CASES)
def test_factor_rises_to_one_and_then_falls(total, warmup):
    factors = [warmup_cosine(t, total, warmup) for t in range(total)]
    rise = max(1, round(warmup * total))
    assert factors[: rise + 1] == sorted(factors[: rise + 1])
    assert factors[rise - 1] == 1
    assert factors[rise - 1 :] == sorted(factors[rise - 1 :], reverse=True)
    assert all(0 < f <= 1 for f in factors)


def test_endpoints_and_the_middle():
    assert warmup_cosine(0, 100, 0.1) == pytest.approx(1 / 10)
    assert warmup_cosine(4, 100, 0.1) == pytest.approx(1 / 2)
    assert warmup_cosine(10, 100, 0.1) == 1
    assert warmup_cosine(55, 100, 0.1) == pytest.approx(1 / 2)
    assert warmup_cosine(99, 100, 0.1) == pytest.approx(math.sin(math.pi / 180) ** 2, rel=1e-6)
    assert warmup_cosine(100, 100, 0.1) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    ("n", "batch", "epochs", "low", "high", "steps"),
    [
        (1000, 100, 3, 0, 0, 30),
        (1001, 100, 3, 0, 0, 33),
        (5, 100, 3, 0, 0, 3),
        (5, 100, 3, 50, 0, 50),
        (1000, 100, 30, 50, 0, 300),
        (1000, 100, 30, 0, 70, 70),
        (5, 100, 3, 50, 20, 20),
        (5, 100, 0, 50, 20, 0),
    ],
)
def test_number_of_steps_follows_epochs_within_its_limits(n, batch, epochs, low, high, steps):
    assert n_steps(n, batch, epochs, low, high) == steps
