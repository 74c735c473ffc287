import pytest
import torch
from tests.oracles.training import global_random_state_kept

from unbend.samples import Batches


def batches(n: int, size: int, seed: int = 0) -> Batches:
    return Batches(n, size, torch.Generator().manual_seed(seed))


SIZES = [(10, 4), (10, 10), (10, 11), (1, 4), (2, 2), (3, 2), (7, 2), (1797, 600), (1001, 1000)]


@pytest.mark.parametrize(("n", "size"), SIZES)
def test_every_epoch_is_a_permutation_in_even_parts(n, size):
    source = batches(n, size)
    epochs = [[next(source) for _ in range(source.per_epoch)] for _ in range(3)]
    for epoch in epochs:
        assert torch.cat(epoch).sort().values.tolist() == list(range(n))
        lengths = [len(batch) for batch in epoch]
        assert max(lengths) - min(lengths) <= 1
        assert max(lengths) <= max(size, 3)
        assert min(lengths) >= min(n, 2)  # batch normalisation needs two
    if n > 5:
        assert len({tuple(torch.cat(epoch).tolist()) for epoch in epochs}) == 3


@pytest.mark.parametrize(("n", "size"), [(1797, 600), (1001, 1000), (64, 64), (65, 64)])
def test_number_of_parts_is_the_least_that_keeps_to_the_size(n, size):
    source = batches(n, size)
    assert source.per_epoch == -(-n // size)
    assert all(len(next(source)) <= size for _ in range(source.per_epoch))


def test_result_depends_on_the_generator_alone():
    with global_random_state_kept():
        first = [next(batch).tolist() for batch in [batches(50, 8)] for _ in range(20)]
        again = [next(batch).tolist() for batch in [batches(50, 8)] for _ in range(20)]
        other = [next(batch).tolist() for batch in [batches(50, 8, seed=1)] for _ in range(20)]
    assert first == again
    assert first != other


def test_batches_are_an_iterator():
    source = batches(6, 3)
    assert iter(source) is source
    assert len([b for b, _ in zip(source, range(5), strict=False)]) == 5
