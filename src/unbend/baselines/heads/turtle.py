"""TURTLE: the labelling that linear classifiers fit best, in one or several spaces."""

from __future__ import annotations

import math
from collections import deque
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_array, check_is_fitted
from torch import Tensor
from torch.nn.functional import normalize
from torch.optim import Adam

from unbend.baselines.heads.estimator import HeadPeer
from unbend.baselines.heads.generalization import generalization_score
from unbend.baselines.heads.losses import marginal_entropy
from unbend.baselines.registry import peer
from unbend.baselines.rules import check_count, check_rules
from unbend.devices import pick_device
from unbend.labels.assign import canonical
from unbend.parameters import seed_of
from unbend.progress import Progress, Tick, console_progress, silent
from unbend.samples import Batches, Scaling, check_samples, prepare

__all__ = ["TURTLE", "fit_classifiers", "outer_loss", "soft_labels"]

# Adam moves each weight by about the rate, so logits move in proportion to the width. The published
# rates are for spaces of this width; for others the rate is scaled inversely.
_WIDTH, _RATE = 1536, 1e-3


def soft_labels(spaces: list[Tensor], encoders: list[Any]) -> list[Tensor]:
    """Probabilities (r, b, k) of r labellings in each space.

    A labelling is the softmax of a weight-normalised linear map. The last column of a space is one.
    """
    return [
        _logits(Z, _weight(*encoder)).softmax(-1)
        for Z, encoder in zip(spaces, encoders, strict=True)
    ]


def outer_loss(logits: list[Tensor], tau: list[Tensor], balance: float) -> Tensor:
    """Σ_s CE(logits_s, mean tau) - γ Σ_s H(mean over the batch of tau_s), for (..., b, k).

    ``logits`` are those of the classifiers, constant; the gradient is that of the labels.
    """
    mean = torch.stack(tau).mean(0)
    fit = [-(mean * z.log_softmax(-1)).sum(-1).mean(-1) for z in logits]
    entropy = [marginal_entropy(t) for t in tau]
    return torch.stack(fit).sum(0) - balance * torch.stack(entropy).sum(0)


def fit_classifiers(
    spaces: list[Tensor], target: Tensor, weights: list[Tensor], steps: int, rates: list[float]
) -> list[Tensor]:
    """A few steps of Adam on the cross entropy of linear classifiers to soft labels (r, b, k).

    The gradient of the cross entropy in W (r, k, d), (softmax(ZWᵀ) - target)ᵀZ/b, is written out
    because these steps dominate the running time of TURTLE. The last column of a space is one.
    """
    optimizer = Adam([{"params": [W], "lr": r} for W, r in zip(weights, rates, strict=True)])
    for _ in range(steps):
        for Z, W in zip(spaces, weights, strict=True):
            residual = (_logits(Z, W).softmax(-1) - target).mT / len(Z)
            W.grad = (residual.flatten(0, 1) @ Z).view_as(W)
        optimizer.step()
    return weights


def _weight(V: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
    """Unit rows times gains, with the offset as last column."""
    return torch.cat([gain * normalize(V, dim=-1), bias], -1)


def _logits(Z: Tensor, W: Tensor) -> Tensor:
    """Z Wᵀ (r, b, k) of r linear maps W (r, k, d): one product with the clusters as rows, which
    for few clusters is three times faster than with the samples as rows."""
    return (W.flatten(0, 1) @ Z.T).view(*W.shape[:2], len(Z)).mT


@peer("turtle", "the labelling that linear classifiers fit best", year=2024)
@dataclass(eq=False, repr=False, kw_only=True)
class TURTLE(HeadPeer):
    r"""Gadetsky et al., "Let go of your labels with unsupervised transfer", ICML 2024.

    Finds the labelling that linear classifiers in every space can fit with a large margin. The
    outer problem learns a linear map per space whose softmax gives the labels. The inner problem
    fits a classifier to them in a few steps from small weights, which favours large margins. The
    outer step treats the classifiers as constant.

    Parameters
    ----------
    n_clusters : int, default=8
        k.
    balance : float, default=10
        γ, weight of the entropy. It favours clusters of equal size; use less for unequal ones.
    n_init : int, default=4
        Labellings that are searched in parallel from different starts; published: 1. They end in
        different optima, and the one with the lowest loss is kept.
    n_outer : int, default=1000
        Steps of the labelling; published: 6000.
    n_inner : int, default=10
        Steps of the classifiers within each.
    inner_lr, outer_lr : float, optional
        Of Adam; by default 1e-3 for a space of width 1536, as published, and in inverse
        proportion to the width for others.
    batch_size : int, optional
        Samples of a step, 2048 and at least ten per cluster, or all if there are fewer;
        published: 10,000.
    warm_start : bool, default=False
        Continue with the classifiers of the previous step instead of restarting them.
    n_folds : int, default=5
        Of the cross-validation behind ``score_``; published: 10.
    device, random_state, verbose :
        As in :class:`~unbend.baselines.SCAN`.

    Attributes
    ----------
    labels_ : ndarray of shape (n,)
        Cluster of each sample, numbered by falling size.
    score_ : float
        Cross-validated accuracy of logistic regression on the labels, mean over spaces: higher is
        better. It needs no true labels and can choose between settings; between starts with the
        same settings the loss is the better judge.
    head_losses_ : ndarray of shape (n_init,)
        Loss of each labelling, its mean over the last epoch.
    best_head_ : int
        The labelling with the lowest loss.
    history_ : list of dict
        A row for each outer step, with the mean loss of all labellings.

    Notes
    -----
    ``fit`` takes one array (n, d), or a list of arrays with one row for each sample, one for each
    space; ``predict`` then takes such a list too. There are fewer steps than published and batches
    are smaller, for two cores of a CPU. Spaces are centred and scaled by one number each; the
    original takes them raw. The result is that of the last step, as published; no label is used
    for anything.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_blobs
    >>> X, y = make_blobs(60, centers=[[0, 0], [9, 0], [0, 9]], random_state=0)
    >>> model = TURTLE(3, random_state=0).fit([X, X @ [[0, 1], [-1, 0]]])
    >>> sorted(np.bincount(model.labels_).tolist()), model.score_
    ([20, 20, 20], 1.0)
    """

    balance: float = 10.0
    n_init: int = 4
    n_outer: int = 1000
    n_inner: int = 10
    inner_lr: float | None = None
    outer_lr: float | None = None
    batch_size: int | None = None
    warm_start: bool = False
    n_folds: int = 5

    def _fit(self, X: Any) -> None:
        check_rules(self)
        arrays = self._spaces(X, fitting=True)
        check_count(self, len(arrays[0]))
        prepared = [prepare(array) for array in arrays]
        self._scalings = [scaling for _, scaling in prepared]
        self._means = [samples.mean(0) for samples, _ in prepared]
        seed = seed_of(self.random_state)
        with console_progress() if self.verbose else nullcontext(silent) as progress:
            device = pick_device(self.device)
            spaces = [(samples - samples.mean(0)).to(device) for samples, _ in prepared]
            found = self._search(spaces, torch.Generator().manual_seed(seed), progress)
        self.best_head_ = int(self.head_losses_.argmin())
        self._model = [W[self.best_head_] for W in found]
        self._choose_columns(arrays)
        vectors = [space.cpu().numpy() for space in spaces]
        self.score_ = generalization_score(vectors, self.labels_, self.n_folds, seed % 2**32)

    def _spaces(self, X: Any, *, fitting: bool) -> list[NDArray[Any]]:
        """X as a list of arrays (n, d_s), checked."""
        dims = [getattr(x, "ndim", 0) for x in X] if isinstance(X, (list, tuple)) else []
        if 2 in dims and set(dims) != {2}:
            raise ValueError(f"all spaces of TURTLE must be arrays (n, d), got dimensions {dims}")
        if 2 not in dims:
            check_kind = None if fitting else self._scalings[0]
            if not fitting and len(self._scalings) > 1:
                raise ValueError(
                    f"TURTLE was fitted on {len(self._scalings)} spaces, got one; give a list"
                )
            array = check_samples(self, X, check_kind)
            if array.ndim > 2:
                raise ValueError(f"TURTLE takes embeddings (n, d), got shape {array.shape}")
            return [array]
        arrays = [
            check_array(
                x,
                dtype=[np.float64, np.float32],
                ensure_min_samples=2 if fitting else 1,
                input_name=f"space {s} of TURTLE",
            )
            for s, x in enumerate(X)
        ]
        sizes = [len(array) for array in arrays]
        if len(set(sizes)) > 1:
            raise ValueError(f"all spaces of TURTLE must have one row per sample, got {sizes}")
        widths = [array.shape[1] for array in arrays]
        if fitting:
            self.n_features_in_ = sum(widths)
        elif widths != (known := [scaling.shape[0] for scaling in self._scalings]):
            raise ValueError(f"TURTLE was fitted on spaces of widths {known}, got {widths}")
        return arrays

    def _search(
        self, spaces: list[Tensor], generator: torch.Generator, progress: Progress
    ) -> list[Tensor]:
        """Alternate between classifiers and labels; returns the weights (r, k, d + 1) by space."""
        shape = (self.n_init, self.n_clusters)
        encoders = [_start(space, shape, generator) for space in spaces]
        inner, outer = (_rates(spaces, lr) for lr in (self.inner_lr, self.outer_lr))
        optimizer = Adam(
            [{"params": list(e), "lr": r} for e, r in zip(encoders, outer, strict=True)]
        )
        batches = Batches(len(spaces[0]), self._batch(2048), generator)
        spaces = [torch.cat([space, torch.ones_like(space[:, :1])], 1) for space in spaces]
        weights: list[Tensor] | None = None
        last: deque[Tensor] = deque(maxlen=batches.per_epoch)
        self.history_ = []
        for step in range(self.n_outer):
            index = next(batches).to(spaces[0].device)
            chosen = [space[index] for space in spaces]
            tau = soft_labels(chosen, encoders)
            target = torch.stack(tau).mean(0).detach()
            if weights is None or not self.warm_start:
                weights = [_classifiers(Z, shape, generator) for Z in chosen]
            fit_classifiers(chosen, target, weights, self.n_inner, inner)
            logits = [_logits(Z, W) for Z, W in zip(chosen, weights, strict=True)]
            losses = outer_loss(logits, tau, self.balance)
            optimizer.zero_grad()
            losses.sum().backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            last.append(losses.detach())
            loss = float(losses.detach().mean())
            self.history_.append({"stage": "TURTLE", "step": step, "loss": loss})
            progress(Tick("TURTLE", step + 1, self.n_outer, {"loss": loss}))
        self.head_losses_ = torch.stack(list(last)).mean(0).double().cpu().numpy()
        with torch.no_grad():
            return [_weight(*encoder).cpu() for encoder in encoders]

    def _choose_columns(self, arrays: list[NDArray[Any]]) -> None:
        self._order = torch.arange(self.n_clusters)
        labels = self._probabilities(arrays).argmax(1)
        self._order = torch.from_numpy(canonical(labels, self.n_clusters).argsort())
        self.labels_ = self._probabilities(arrays).argmax(1)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probability of each cluster, the mean over spaces, shape (m, k)."""
        check_is_fitted(self)
        return self._probabilities(self._spaces(X, fitting=False))

    def _probabilities(self, arrays: list[NDArray[Any]]) -> NDArray[np.float64]:
        tau = []
        parts = zip(arrays, self._scalings, self._means, self._model, strict=True)
        for array, scaling, mean, W in parts:
            z = scaling.apply(array).double() - mean.double()
            tau.append((z @ W[:, :-1].double().T + W[:, -1].double()).softmax(1))
        mean_tau: NDArray[np.float64] = torch.stack(tau).mean(0)[:, self._order].numpy()
        return mean_tau

    # ------------------------------------------------------------------ disk

    def _state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors = {"order": self._order}
        for s, (mean, W) in enumerate(zip(self._means, self._model, strict=True)):
            tensors |= {f"{s}.mean": mean, f"{s}.weight": W}
        scalings = [scaling.to_dict() for scaling in self._scalings]
        values = {"scalings": scalings, "score": self.score_, "best_head": self.best_head_}
        return tensors, values

    def _restore(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        self._scalings = [Scaling.from_dict(tree) for tree in values["scalings"]]
        count = range(len(self._scalings))
        self._means = [tensors[f"{s}.mean"] for s in count]
        self._model: Any = [tensors[f"{s}.weight"] for s in count]
        self._order, self.score_ = tensors["order"], float(values["score"])
        self.best_head_ = int(values["best_head"])


def _rates(spaces: list[Tensor], given: float | None) -> list[float]:
    return [_RATE * _WIDTH / space.shape[1] if given is None else given for space in spaces]


def _start(
    space: Tensor, shape: tuple[int, int], generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Initial directions, gains and offsets of r labellings with k clusters, ``shape`` (r, k)."""
    d = space.shape[1]
    V = _uniform((*shape, d), d, generator).to(space)
    gain, bias = V.norm(dim=-1, keepdim=True), _uniform((*shape, 1), d, generator).to(space)
    return V.requires_grad_(), gain.requires_grad_(), bias.requires_grad_()


def _classifiers(Z: Tensor, shape: tuple[int, int], generator: torch.Generator) -> Tensor:
    return _uniform((*shape, Z.shape[1]), Z.shape[1] - 1, generator).to(Z)


def _uniform(shape: tuple[int, ...], width: int, generator: torch.Generator) -> Tensor:
    """PyTorch's default initialisation of a linear layer with this many inputs."""
    return torch.rand(shape, generator=generator).mul_(2).sub_(1).div_(math.sqrt(width))
