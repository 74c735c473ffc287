import numpy as np
import pytest
from sklearn.datasets import load_digits

from unbend import MLC
from unbend.progress import Tick
from unbend.training import Checkpoints

X = load_digits().data[:60]
SHORT = {"pretrain.max_steps": 4, "stage2.max_steps": 4}


def model(**changes: object) -> MLC:
    return MLC(3, **{"random_state": 0, "settings": SHORT, **changes})


def stopped(path: object, **changes: object) -> None:
    def listen(tick: Tick) -> None:
        if (tick.stage, tick.done) == ("stage 2", 2):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model(**changes).fit(X, checkpoints=path, progress=listen)


def test_fit_resumes_after_an_interrupt(tmp_path):
    expected = model().fit(X)
    stopped(tmp_path)
    seen: list[Tick] = []
    found = model().fit(X, checkpoints=str(tmp_path), progress=seen.append)
    first = next(tick for tick in seen if tick.stage.startswith("stage"))
    assert (first.stage, first.done) == ("stage 2", 3)
    assert found.history_ == expected.history_
    np.testing.assert_array_equal(found.labels_, expected.labels_)
    np.testing.assert_array_equal(found.transform(X), expected.transform(X))


def test_without_a_seed_it_is_the_one_of_the_checkpoint(tmp_path):
    stopped(Checkpoints(tmp_path), random_state=None)
    found = model(random_state=None).fit(X, checkpoints=tmp_path)
    seed = Checkpoints(tmp_path).identity()["seed"]
    assert found.history_ == model(random_state=seed).fit(X).history_


def test_another_fit_is_rejected_and_the_model_stays_as_it_was(tmp_path):
    stopped(tmp_path)
    other = model(eta=0.3)
    with pytest.raises(ValueError, match=r"`stage2.eta` = 'auto', not 0.3; name another"):
        other.fit(X, checkpoints=tmp_path)
    assert not hasattr(other, "labels_")
