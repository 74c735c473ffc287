"""A clustering with known answers: digits in orthogonal subspaces, a few of them mistaken."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from unbend.labels import ModelSelection
from unbend.report import Facts, make_thumbnails, summarise

HOSTILE = [
    "</script><script>window.hacked=1</script>",
    '"><img src=x onerror="window.hacked=1">',
    "new\nline\r.png",
    "👩‍🔬 Ωμέγα.png",
    "a & b ' c.png",
    "line\u2028sep\u2029arator",
    "{{ 7 * 7 }}{% raw %}",
]


def subspace_features(labels, k, rank=3, d=40, noise=0.03, seed=0):
    """Unit rows in k orthogonal subspaces, signs included."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.standard_normal((d, d)))[0][:, : k * rank].reshape(d, k, rank)
    inner = rng.standard_normal((len(labels), rank))
    Z = np.einsum("dnr,nr->nd", basis[:, labels], inner) + noise * rng.standard_normal(
        (len(labels), d)
    )
    return (Z / np.linalg.norm(Z, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture(scope="session")
def facts() -> Facts:
    data = load_digits()
    n, k = 600, 10
    images, y = data.images[:n].astype(np.uint8), data.target[:n].astype(np.int64)
    rng = np.random.default_rng(0)
    labels = np.where(rng.random(n) < 0.05, (y + 1) % k, y)
    thumbnails, index = make_thumbnails(images)
    history = [
        {"stage": "stage 1", "step": i, "R": 40.0 + i, "R_c": None, "delta_R": None}
        | {"rank": i if i % 10 == 0 else None}
        for i in range(30)
    ]
    history += [
        {"stage": "stage 2", "step": i, "R": 90.0 + i, "R_c": 50.0 - i, "delta_R": 40.0 + 2 * i}
        | {"rank": 20 + i if i % 10 == 0 else None}
        for i in range(20)
    ]
    heights = np.sort(rng.random(k - 1)) * 100
    tree, node = [], 0
    for step in range(k - 1):
        tree.append([node, step + 1, heights[step], step + 2])
        node = k + step
    names = [f"digit_{i}.png" for i in range(n)]
    names[: len(HOSTILE)] = HOSTILE
    ks = list(range(2, 21))
    selection = ModelSelection(
        k=ks,
        gap=[0.9 if q == k else 0.1 for q in ks],
        drop=[0.1] * len(ks),
        eta=np.linspace(0.3, 0.1, len(ks)).tolist(),
        strength=[2.0 if q == k else 1.9 if q == 9 else None for q in ks],
        stability=[0.8 if q in (9, 10) else None for q in ks],
        explained=[0.4 if q in (9, 10) else None for q in ks],
        chosen=k,
        interval=(9, 10),
        candidates=[
            {"k": k, "text": "10: fair", "strength": 1.0, "sizes": [0.1] * 10},
            {"k": 9, "text": "9: <b>fair</b>", "strength": 0.95, "sizes": [0.2] + [0.1] * 8},
        ],
        reason="10: fair",
    )
    return Facts(
        labels=labels,
        names=names,
        probability=rng.beta(9, 1, n),
        outlier_score=rng.random(n) * 0.3,
        outlier_threshold=0.29,
        features=subspace_features(labels, k),
        eigenvalues=np.r_[np.linspace(1, 0.9, k), 0.4],
        merge_tree=np.array(tree),
        selection=selection,
        history=history,
        thumbnails=thumbnails,
        thumbnail_index=index,
        y=y,
        classes=[f"class {c}" for c in "0123456789"],
        about={"title": "digits <b>&</b>", "split": "all", "kind": "images", "seed": 0}
        | {"seconds": 83.2, "version": "9.9.9", "settings": {"stage2": {"eta": 0.175}}},
        broken=[("bad/<i>.png", "cannot identify image file"), ("x\ny.jpg", "truncated")],
        warnings=["the spectrum has <no> clear gap"],
    )


@pytest.fixture(scope="session")
def summary(facts):
    return summarise(facts)


@pytest.fixture(scope="session")
def hostile() -> list[str]:
    return HOSTILE


@pytest.fixture(scope="session")
def make_features():
    return subspace_features
