"""TEMI: maximise the pointwise mutual information of neighbours, with a teacher per head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from unbend.baselines.heads.estimator import HeadPeer
from unbend.baselines.heads.session import Session
from unbend.baselines.heads.stacked import HeadSpec, HeadStack
from unbend.baselines.registry import peer
from unbend.pretrain.method import Follower

__all__ = ["TEMI", "pair_weights", "teacher_momentum", "temi_loss"]

_PRIOR_MOMENTUM = 0.9  # of the teacher's mean probabilities, as published
_MEMORY = 0.05  # share of all steps that the teachers average over: 250 of 5000 as published


def pair_weights(q_x: Tensor, q_y: Tensor) -> Tensor:
    """Probability, averaged over all teachers, that a pair shares a cluster, (b,).

    The mean over heads of Σ_c q(c|x) q(c|y); probabilities (H, b, k), no gradient.
    """
    return (q_x * q_y).sum(-1).mean(0).detach()


def temi_loss(
    log_s: Tensor, log_t: Tensor, log_prior: Tensor, weights: Tensor, beta: float
) -> Tensor:
    """-mean w · log Σ_c [q_s(c|x) q_t(c|x')]^β / q̃(c), for each head.

    Parameters
    ----------
    log_s, log_t : Tensor of shape (H, b, k)
        Logarithms of the student's probabilities of x and the teacher's of x'.
    log_prior : Tensor of shape (H, 1, k)
        Logarithm of q̃, the teacher's mean probabilities.
    weights : Tensor of shape (b,)
        Of the pairs, from :func:`pair_weights`.
    beta : float
        In (0, 1]; 1 is the pointwise mutual information.
    """
    information = (beta * (log_s + log_t.detach()) - log_prior.detach()).logsumexp(-1)
    return -(weights * information).mean(-1)


def teacher_momentum(steps: int) -> float:
    """Momentum of an average over a twentieth of the steps.

    >>> round(teacher_momentum(5000), 3)  # as published
    0.996
    """
    return max(0.0, 1 - 1 / (_MEMORY * steps))


@peer("temi", "mutual information of neighbours, with teachers", year=2023)
@dataclass(eq=False, repr=False, kw_only=True)
class TEMI(HeadPeer):
    """Adaloglou et al., "Exploring the limits of deep image clustering using pretrained models",
    BMVC 2023.

    Made for embeddings of a frozen encoder. Each head has a student and a teacher, the moving
    average of the student. The loss maximises the pointwise mutual information of a student with
    the teacher of a neighbour. A pair is weighted by the probability, averaged over all teachers,
    that it shares a cluster. Dividing by the prior of each cluster balances them.

    Parameters
    ----------
    n_clusters : int, default=8
        k.
    n_heads : int, default=4
        Published: 50 (16 in the example of its program). Time grows with them.
    n_neighbors : int, default=50
        As published; 25 for over-clustering. At most n/(2k). With few, the heads find parts of
        clusters: the loss rewards agreement with the neighbours and nothing wider.
    beta : float, default=0.6
        With 1, some clusters tend to stay empty; smaller values use all of them.
    temperature : float, default=0.1
        Temperature of both softmaxes.
    momentum : float, optional
        Momentum of the teachers. By default they average over a twentieth of all steps, which is
        the published 0.996 for 5000 steps. Teachers that are slow for a short run stay behind
        their students, and heads end in poorer optima.
    hidden : int, default=256
        Width of the hidden layer; a second has half of it. Published: 512.
    epochs : int, default=30
        Published: 100 and more. Small data gets at least 500 steps.
    batch_size : int, optional
        256, and at least ten samples per cluster. Published: 1024, for more samples and epochs.
    lr : float, default=3e-3
        Rate of Adam, after a warm-up over a fifth of the steps. Published: 4e-4, for many more
        steps.
    consensus, device, random_state, verbose :
        As in :class:`~unbend.baselines.SCAN`.

    Attributes
    ----------
    labels_, head_losses_, best_head_, history_ :
        As in :class:`~unbend.baselines.SCAN`; the loss of a head is its mean over the last epoch.

    Notes
    -----
    Defaults are for two cores of a CPU: 10,000 × 1280 embeddings take minutes. The head is the
    one of lowest loss, as published. The original's evaluation reports the largest accuracy over
    its checkpoints; ours is the last. Its search for neighbours in blocks leaves a sample among
    its own neighbours beyond 80,000 samples; ours does not. Embeddings are centred and share one
    scale; the original standardises each dimension if asked.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_blobs
    >>> X, y = make_blobs(60, centers=[[0, 0], [9, 0], [0, 9]], random_state=0)
    >>> sorted(np.bincount(TEMI(3, random_state=0).fit(X).labels_).tolist())
    [20, 20, 20]
    """

    n_heads: int = 4
    n_neighbors: int = 50
    beta: float = 0.6
    temperature: float = 0.1
    momentum: float | None = None
    hidden: int = 256
    epochs: int = 30
    batch_size: int | None = None
    lr: float = 3e-3
    consensus: bool = False

    def _spec(self, n_in: int) -> HeadSpec:
        hidden = (self.hidden, max(1, self.hidden // 2))
        return HeadSpec(self.n_heads, n_in, self.n_clusters, hidden, "gelu", cosine=True)

    def _learn(self, session: Session) -> Tensor:
        views, students = session.views, session.model.heads
        pairs = session.pairs(self.n_neighbors)
        teachers = Follower(students)
        prior = torch.full((self.n_heads, 1, self.n_clusters), 1 / self.n_clusters)
        prior = prior.to(views.samples.device)

        def compute(index: Tensor, step: int) -> Tensor:
            h = torch.cat([views.seen(index), views.seen(pairs(index))])
            log_s, log_t = (
                (heads(h) / self.temperature).log_softmax(-1) for heads in (students, teachers)
            )
            q = log_t.exp()
            prior.lerp_(q.mean(1, keepdim=True), 1 - _PRIOR_MOMENTUM)
            (s_x, s_y), (t_x, t_y) = log_s.chunk(2, 1), log_t.chunk(2, 1)
            weights, log_prior = pair_weights(*q.chunk(2, 1)), prior.clamp_min(1e-8).log()
            forth = temi_loss(s_x, t_y, log_prior, weights, self.beta)
            return (forth + temi_loss(s_y, t_x, log_prior, weights, self.beta)) / 2

        batch_size, momentum = self._batch(256), self.momentum
        if momentum is None:
            momentum = teacher_momentum(session.n_steps(self.epochs, batch_size))
        losses = session.descend(
            "TEMI",
            compute,
            students.parameters(),
            lr=self.lr,
            epochs=self.epochs,
            batch_size=batch_size,
            lr_factor=lambda step, total: min(1.0, (step + 1) / (0.2 * total)),
            after_step=lambda step: teachers.follow(momentum, students),
        )
        session.model.heads = _at_temperature(teachers.chain[0], self.temperature)
        return losses


def _at_temperature(heads: Any, temperature: float) -> HeadStack:
    """A copy of the heads with the temperature folded into the logits."""
    stack: HeadStack = heads
    gain: Any = stack.last.gain
    with torch.no_grad():
        gain.div_(temperature)
    return stack
