"""The losses of cluster heads, one number at a time in float64."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

__all__ = [
    "assignment_oracle",
    "confident_oracle",
    "double_softmax_oracle",
    "fixmatch_oracle",
    "graph_contrast_oracle",
    "information_oracle",
    "nnm_oracle",
    "prototype_oracle",
    "reliable_oracle",
    "scan_oracle",
    "temi_oracle",
    "turtle_oracle",
]


def _entropy(p):
    return -sum(float(x) * math.log(x) for x in p if x > 0)


def _mean(P):
    return [sum(row[c] for row in P) / len(P) for c in range(len(P[0]))]


def _softmax(x):
    e = [math.exp(v - max(x)) for v in x]
    return [v / sum(e) for v in e]


def _consistency(P, Q):
    return -sum(
        math.log(sum(a * b for a, b in zip(p, q, strict=True))) for p, q in zip(P, Q, strict=True)
    ) / len(P)


def _contrast(P, Q):
    P, Q = np.asarray(P), np.asarray(Q)
    total = 0.0
    for c in range(P.shape[1]):
        cosines = [
            float(P[:, c] @ Q[:, e])
            / math.sqrt(float(P[:, c] @ P[:, c]) * float(Q[:, e] @ Q[:, e]))
            for e in range(Q.shape[1])
        ]
        total -= math.log(_softmax(cosines)[c])
    return total / P.shape[1]


def scan_oracle(P: ArrayLike, Q: ArrayLike, balance: float) -> float:
    """Mean of -log <p, q> less the weighted entropy of the anchors' mean."""
    P, Q = np.asarray(P).tolist(), np.asarray(Q).tolist()
    return _consistency(P, Q) - balance * _entropy(_mean(P))


def assignment_oracle(P: ArrayLike, Q: ArrayLike, balance: float) -> float:
    """Cross entropy of clusters' cosines, and how far the mean is from uniform."""
    rows = np.asarray(P).tolist()
    return _contrast(P, Q) + balance * (math.log(len(rows[0])) - _entropy(_mean(rows)))


def graph_contrast_oracle(Z, Z_other, positive, degree, temperature):
    """One view after another: its positives above, all others below."""
    both, n = [*np.asarray(Z), *np.asarray(Z_other)], len(Z)
    mean, total = float(np.mean(degree)), 0.0
    for i in range(2 * n):
        above = below = 0.0
        for j in range(2 * n):
            similar = math.exp(float(both[i] @ both[j]) / temperature)
            if positive[i % n][j % n]:
                above += math.sqrt(mean / degree[j % n]) * similar if i != j else 0.0
            else:
                below += similar
        total += math.log(below) - math.log(above)
    return total / (2 * n)


def nnm_oracle(anchor, neighbor, other, nearest, stored, balance):
    """Two local pairs, four global ones, and the entropy over both views."""
    first = [*np.asarray(anchor).tolist(), *np.asarray(other).tolist()]
    second = [*np.asarray(neighbor).tolist(), *np.asarray(nearest).tolist()]
    loss = _consistency(first, second) + _contrast(first, second) - balance * _entropy(_mean(first))
    targets = np.asarray(stored).tolist() * 4
    return loss + _consistency(first + second, targets) + _contrast(first + second, targets)


def information_oracle(P, U, balance):
    """H(Y|U) - β H(Y) from the joint table."""
    P, U = np.asarray(P), np.asarray(U)
    joint = sum(np.outer(p, u) for p, u in zip(P, U, strict=True)) / len(P)
    given = sum(
        float(column.sum()) * _entropy((column / column.sum()).tolist()) for column in joint.T
    )
    return given - balance * _entropy(joint.sum(1).tolist())


def temi_oracle(S, T, prior, weights, beta):
    """-mean of weight times log Σ (s t)^β / prior."""
    total = 0.0
    for s, t, w in zip(np.asarray(S), np.asarray(T), np.asarray(weights), strict=True):
        inner = sum((a * b) ** beta / c for a, b, c in zip(s, t, prior, strict=True))
        total -= w * math.log(inner)
    return total / len(S)


def turtle_oracle(logits, tau, balance):
    """Cross entropy of each classifier to the mean labels, less the entropies of all labels."""
    mean = np.mean([np.asarray(t) for t in tau], axis=0)
    total = 0.0
    for table in logits:
        for row, label in zip(np.asarray(table).tolist(), mean.tolist(), strict=True):
            total -= sum(q * math.log(p) for q, p in zip(label, _softmax(row), strict=True)) / len(
                mean
            )
    return total - balance * sum(_entropy(_mean(np.asarray(t).tolist())) for t in tau)


def double_softmax_oracle(P, labels):
    """Cross entropy of the softmax of probabilities, over all labels that are given."""
    total = count = 0.0
    for p, row in zip(np.asarray(P).tolist(), np.asarray(labels).tolist(), strict=True):
        for c, given in enumerate(row):
            if given:
                total, count = total - math.log(_softmax(p)[c]), count + 1
    return total / max(count, 1)


def confident_oracle(strong, plain, threshold):
    """Mean over the classes present of the mean cross entropy within each."""
    losses: dict[int, list[float]] = {}
    for q, p in zip(np.asarray(strong).tolist(), np.asarray(plain).tolist(), strict=True):
        c = int(np.argmax(p))
        if p[c] > threshold:
            losses.setdefault(c, []).append(-math.log(q[c]))
    return float(np.mean([np.mean(part) for part in losses.values()])) if losses else 0.0


def fixmatch_oracle(labelled, labels, weak, strong, threshold):
    """Supervised mean, and confident pseudo-labels over all unlabelled samples."""
    known = [
        -math.log(p[int(np.argmax(y))])
        for p, y in zip(np.asarray(labelled).tolist(), np.asarray(labels).tolist(), strict=True)
    ]
    own = []
    for w, s in zip(np.asarray(weak).tolist(), np.asarray(strong).tolist(), strict=True):
        c = int(np.argmax(w))
        own.append(-math.log(s[c]) if w[c] > threshold else 0.0)
    return float(np.mean(known) + np.mean(own))


def prototype_oracle(P, Z):
    """Labels of one head: the nearest m/k samples of each cluster's mean of its surest m/(2k)."""
    P, Z = np.asarray(P), np.asarray(Z)
    m, k = P.shape
    labels = np.zeros((m, k))
    for c in range(k):
        surest = sorted(range(m), key=lambda i: -P[i, c])[: max(1, round(m / (2 * k)))]
        centre = sum(Z[i] for i in surest)
        nearest = sorted(range(m), key=lambda i: -float(Z[i] @ centre))[: max(1, m // k)]
        for i in nearest:
            labels[i, c] = 1
    return labels


def reliable_oracle(neighbors, P, agreement, threshold):
    """Samples that are sure and agree with their neighbours, by cluster, before any is cut."""
    label = [int(np.argmax(p)) for p in P]
    found: dict[int, set[int]] = {c: set() for c in range(len(P[0]))}
    for i, near in enumerate(neighbors):
        group = [i, *near]
        share = sum(label[j] == label[i] for j in group) / len(group)
        if share >= agreement and max(P[i]) > threshold:
            found[label[i]].add(i)
    return found
