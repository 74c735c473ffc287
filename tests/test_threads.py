"""The number of threads follows the work and is restored."""

import numpy as np
import pytest
import torch

from unbend import MLC
from unbend.threads import allowed_threads, threads_for, use_threads


@pytest.fixture
def two():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_contexts_nest(two):
    with use_threads(1):
        assert (torch.get_num_threads(), allowed_threads()) == (1, 2)
        with use_threads(0):
            assert torch.get_num_threads() == 2
        assert torch.get_num_threads() == 1
    assert (torch.get_num_threads(), allowed_threads()) == (2, 2)


def test_never_more_than_were_allowed(two):
    with use_threads(9):
        assert torch.get_num_threads() == 2
    torch.set_num_threads(1)
    with use_threads(0):
        assert torch.get_num_threads() == 1


def test_restored_after_an_error(two):
    with pytest.raises(KeyError), use_threads(1):
        raise KeyError
    assert torch.get_num_threads() == 2


def test_small_steps_take_one_thread():
    assert (threads_for(1e9), threads_for(1e11)) == (1, 0)


def test_a_small_fit_takes_one_thread_and_gives_the_others_back(two):
    seen = set()
    X = np.random.default_rng(0).normal(size=(40, 3))
    model = MLC(2, pretrain_epochs=2, epochs=2, random_state=0,
                callbacks=[lambda tick: seen.add(torch.get_num_threads())])  # fmt: skip
    model.fit(X, progress=lambda tick: seen.add(torch.get_num_threads()) if tick.done else None)
    assert 1 in seen
    assert torch.get_num_threads() == 2
    torch.set_num_threads(1)
    again = MLC(2, pretrain_epochs=2, epochs=2, random_state=0).fit(X)
    np.testing.assert_array_equal(model.labels_, again.labels_)
    np.testing.assert_array_equal(model.transform(X), again.transform(X))
