"""Eigenpairs against NumPy, and the threads that they are computed on."""

import numpy as np
import pytest
import torch

from unbend.functional.spectrum import eigh, eigvalsh


@pytest.mark.parametrize("n", [3, 250])
def test_eigenpairs_equal_those_of_numpy(n):
    A = torch.randn(n, n, generator=torch.Generator().manual_seed(0)).double()
    A = A + A.T
    values, vectors = eigh(A)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(A.numpy()), atol=1e-10)
    np.testing.assert_allclose(vectors @ values.diag() @ vectors.T, A, atol=1e-9)
    torch.testing.assert_close(eigvalsh(A), values)


@pytest.mark.parametrize(("n", "expected"), [(50, 2), (600, 1)])
def test_matrices_of_middle_size_are_decomposed_on_one_thread(n, expected, monkeypatch):
    seen = []

    def watched(A):
        seen.append(torch.get_num_threads())
        return A.diagonal(), A

    monkeypatch.setattr(torch.linalg, "eigh", watched)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        eigh(torch.eye(n))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert seen == [expected]
