"""The sizes that are shown before training."""

import numpy as np
import torch

from unbend import MLC
from unbend.labels.first_look import first_look


def blobs(sizes):
    generator = torch.Generator().manual_seed(0)
    centers = 20 * torch.eye(len(sizes))
    index = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    return centers[index] + torch.randn(len(index), len(sizes), generator=generator)


def test_sizes_of_groups_that_anyone_can_see():
    text = first_look(blobs([50, 30, 20]), 3, "euclidean")
    assert text is not None
    assert text.endswith("100 samples finds 3 groups with 50%, 30%, 20% of them")


def test_nothing_to_see():
    assert first_look(blobs([4, 4]), 2, "euclidean") is None
    assert first_look(blobs([40, 40]), 1, "euclidean") is None


def test_a_fit_shows_it_and_does_not_depend_on_it():
    X = blobs([40, 20]).numpy()
    ticks = []
    model = MLC(2, pretrain_epochs=1, epochs=1, random_state=0)
    labels = model.fit(X, progress=ticks.append).labels_
    texts = [tick.text for tick in ticks]
    assert any("2 groups with 67%, 33%" in text for text in texts)
    first_step = next(i for i, tick in enumerate(ticks) if tick.stage == "stage 1")
    assert any("first look" in text for text in texts[:first_step])
    np.testing.assert_array_equal(labels, model.fit(X).labels_)
