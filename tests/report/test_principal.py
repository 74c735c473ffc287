import numpy as np
import pytest

from unbend.report.principal import principal_components


def test_components_are_those_of_the_svd():
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((50, 12)) * np.linspace(3, 0.1, 12)
    _, s, Vt = np.linalg.svd(Z, full_matrices=False)
    unit = Z / np.linalg.norm(Z, axis=1, keepdims=True)
    found = principal_components(Z, n_components=5, n_members=7)
    assert len(found) == 5
    for c, component in enumerate(found):
        assert component.energy == pytest.approx(s[c] ** 2 / (s**2).sum())
        cosine = unit @ Vt[c]
        # Pointed to the side with the closer members, whatever sign the SVD returns
        sides = [np.sort(sign * cosine)[::-1][:7] for sign in (1, -1)]
        np.testing.assert_allclose(component.cosines, max(sides, key=np.sum), atol=1e-10)
        np.testing.assert_allclose(np.abs(cosine[component.members]), np.abs(component.cosines))


def test_members_do_not_depend_on_the_sign_of_the_features():
    Z = np.random.default_rng(1).standard_normal((30, 6))
    for a, b in zip(principal_components(Z), principal_components(-Z), strict=True):
        assert a.energy == pytest.approx(b.energy)
        assert a.members.tolist() == b.members.tolist()


def test_components_are_not_centred():
    """A cluster on one line through the origin has one direction, wherever its mean lies."""
    Z = np.outer([1.0, 2.0, 3.0], [3.0, 4.0])
    energies = [c.energy for c in principal_components(Z)]
    np.testing.assert_allclose(energies, [1, 0], atol=1e-12)


def test_small_and_empty_clusters():
    assert len(principal_components(np.eye(3)[:2], 8, 8)) == 2
    assert principal_components(np.zeros((4, 3))) == []
    with pytest.raises(ValueError, match=r"must be \(m, d\)"):
        principal_components(np.zeros(3))
