"""MLC, the scikit-learn estimator, and load."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from unbend.algorithm import Objective, mlc_objective, solve
from unbend.begin import begin
from unbend.config import Config, check_config, resolve
from unbend.devices import make_fabric
from unbend.encoding import EncodedImages, embed_images, open_cache, restore_encoder
from unbend.functional import coding_rate
from unbend.labels import LabelModel, ModelSelection
from unbend.networks import GIVEN, Encoder, build_network, load_encoder
from unbend.networks.network import Output
from unbend.notebook import fitted_card
from unbend.parameters import check_parameters, hook_name, seed_of, settings_of
from unbend.progress import Callback, Progress, console_progress, silent
from unbend.runs import read_model, write_model
from unbend.samples import NeighborChoice, Scaling, ViewSampler, check_samples, prepare
from unbend.training import Checkpoints

__all__ = ["MLC", "Assessment", "load"]


class Assessment(NamedTuple):
    """Predictions of a model for some samples, one row each."""

    labels: NDArray[np.int64]
    probabilities: NDArray[np.float64]
    outlier_score: NDArray[np.float64]
    Z: NDArray[np.floating]


class MLC(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):
    """Manifold Linearizing and Clustering.

    Learns features in which every cluster fills a linear subspace of its own, orthogonal to the
    others, and clusters the samples at the same time, without labels: Algorithm 1 of Ding et
    al. [1]_.

    Parameters
    ----------
    n_clusters : int or "auto", default="auto"
        Number of clusters, or let the spectrum of the learned membership decide.
    preset : {"auto", "images", "vectors", "paper"}, default="auto"
        The source of all settings that are not given here. ``"auto"`` takes ``"images"`` or
        ``"vectors"`` by the shape of X; embeddings of an encoder are vectors. ``"paper"`` has the
        paper's settings, made for a GPU.
    dim : int, optional
        d, the dimension of the features.
    backbone : str or Module, optional
        ``"resnet18"``, ``"resnet18-imagenet"``, ``"convnet"``, ``"mlp"``, ``"identity"`` or
        ``"auto"``; or a module from scaled samples (b, ...) to vectors (b, w), of which a copy is
        trained. Its weights are saved with the model, its code is not: give it to :func:`load`.
    n_views : int, optional
        A, the views of a sample in each step.
    n_neighbors : int, optional
        Views after the first start from one of that many nearest neighbours; 0 for the sample
        itself.
    pretrain : str or path, optional
        Stage 1, the self-supervised initialisation: ``"tcr"`` (the paper's), ``"simclr"``,
        ``"moco"``, ``"vicreg"``, ``"byol"``, ``"swav"``, ``"none"``, or the directory of an
        encoder that ``unbend pretrain`` wrote, whose backbone is then taken as it is.
    pretrain_epochs, epochs : int, optional
        Length of stage 1 and of stage 2.
    batch_size : int, optional
        n_b, for both stages.
    eta : float or "auto", optional
        η, the weight of entropy in the membership. ``"auto"``, the default of ``"images"`` and
        ``"vectors"``, calibrates it to the number of clusters after stage 1.
    eps_sq : float, optional
        ε² of stage 2.
    train_backbone : bool, optional
        Let stage 2 train the backbone too.
    encoder : str, path, callable or Encoder, optional
        Images go through this frozen network first, as in ``"lite2"``, ``"hf:NAME"`` or the file
        of a checkpoint; see :func:`unbend.networks.load_encoder`. The model then takes images in
        ``predict`` and the like, too.
    views : {"auto", "neighbors", "cached", "live"} or callable, optional
        With an encoder: near neighbours among the embeddings (what ``"auto"`` means), augmented
        copies that are encoded once, or images augmented and encoded in each step as in the paper.
        A callable ``views(x, generator)`` takes the place of augmentation and noise: it returns a
        random variant of each scaled sample of x (b, ...).
    objective : callable, optional
        What stage 2 minimises, in place of :func:`unbend.algorithm.mlc_objective`:
        ``objective(Z, C, config, generator)`` returns :class:`unbend.training.Terms` from the
        features and codes of a batch, both (A, b, d).
    callbacks : list of callable, optional
        Each is called with a :class:`~unbend.progress.Tick` before the first step of a stage and
        after every step; ``tick.network`` is the network. Numbers that it returns are shown.
    cache_dir : path or None, default="auto"
        Where embeddings are kept so that no image is encoded twice; ``"auto"`` is a folder in
        the user's cache, None keeps nothing.
    settings : dict, optional
        Any other knob by its dotted name, as in ``{"pretrain.invariance": 0.5}``; see
        :mod:`unbend.config`.
    max_clusters : int, optional
        Largest number that ``n_clusters="auto"`` considers.
    label_method : {"auto", "dense", "blocks", "landmarks"}, default="auto"
        How the membership of all samples is clustered; ``"auto"`` decides by their number.
    device : str, default="auto"
        ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"mps"``.
    precision : str, default="32-true"
        As in Lightning Fabric; the rates are always computed in 32 bits.
    random_state : int, RandomState or None, default=None
        Seed of everything. The same seed on the same machine gives identical labels.
    verbose : int, default=0
        1 shows progress.

    Attributes
    ----------
    labels_ : ndarray of shape (n,)
        Cluster of each sample, numbered by falling size.
    n_clusters_ : int
        Number of clusters.
    history_ : list of dict
        A row per training step: stage, R, R_c, delta_R, rank, ...
    model_selection_ : ModelSelection or None
        How the number of clusters was chosen, with ``n_clusters="auto"``.
    merge_tree_ : ndarray of shape (n_clusters_ - 1, 4)
        Which clusters merge next, as a SciPy linkage.
    labelling_ : list of dict
        The labellings that were compared, the one that was kept first, each with the share of the
        coding rate that it explains and the size of its smallest cluster.
    neighbors_ : NeighborChoice
        The metric of the neighbours, and λ_k of the other metrics' graphs.
    eigenvalues_ : ndarray
        Leading spectrum of the membership.
    outlier_threshold_ : float
        The outlier score that one training sample in a hundred exceeds.
    config_ : Config
        Every knob as it was resolved.
    n_features_in_ : int
        Numbers in one sample; with an encoder, in one embedding.

    References
    ----------
    .. [1] T. Ding, S. Tong, K. H. R. Chan, X. Dai, Y. Ma, B. D. Haeffele, "Unsupervised
       manifold linearizing and clustering", ICCV 2023.

    Examples
    --------
    >>> from unbend import MLC
    >>> from sklearn.datasets import make_blobs
    >>> X, y = make_blobs(60, centers=[[0, 0], [9, 0], [0, 9]], random_state=0)
    >>> MLC(n_clusters=3, random_state=0).fit(X).n_clusters_
    3
    """

    labels_: NDArray[np.int64]
    n_features_in_: int
    config_: Config

    def __init__(
        self,
        n_clusters: int | str = "auto",
        *,
        preset: str = "auto",
        dim: int | None = None,
        backbone: str | nn.Module | None = None,
        n_views: int | None = None,
        n_neighbors: int | None = None,
        pretrain: str | Path | None = None,
        pretrain_epochs: int | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        eta: float | str | None = None,
        eps_sq: float | None = None,
        train_backbone: bool | None = None,
        encoder: Any = None,
        views: str | Callable[[Tensor, torch.Generator], Tensor] | None = None,
        objective: Objective | None = None,
        callbacks: Sequence[Callback] | None = None,
        cache_dir: str | Path | None = "auto",
        settings: dict[str, Any] | None = None,
        max_clusters: int | None = None,
        label_method: str = "auto",
        device: str = "auto",
        precision: str = "32-true",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.preset = preset
        self.dim = dim
        self.backbone = backbone
        self.n_views = n_views
        self.n_neighbors = n_neighbors
        self.pretrain = pretrain
        self.pretrain_epochs = pretrain_epochs
        self.epochs = epochs
        self.batch_size = batch_size
        self.eta = eta
        self.eps_sq = eps_sq
        self.train_backbone = train_backbone
        self.encoder = encoder
        self.views = views
        self.objective = objective
        self.callbacks = callbacks
        self.cache_dir = cache_dir
        self.settings = settings
        self.max_clusters = max_clusters
        self.label_method = label_method
        self.device = device
        self.precision = precision
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------ fit

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        checkpoints: str | Path | Checkpoints | None = None,
        progress: Progress | None = None,
    ) -> MLC:
        """Learn the representation and the clusters of X.

        Parameters
        ----------
        X : array-like or Tensor
            Vectors (n, p), or images (n, h, w) or (n, c, h, w), uint8 or float; with an encoder
            also :class:`~unbend.encoding.EncodedImages`, which it has seen before.
        y : None
            Ignored, present for scikit-learn.
        checkpoints : path or Checkpoints, optional
            Where to keep the state of training every few minutes and at an interrupt. The same
            call, made again, goes on from there and ends as if it had never been interrupted;
            samples, settings and seed must be the same. With ``random_state=None`` the seed is
            the one in the checkpoint.
        progress : callable, optional
            Receives :class:`~unbend.progress.Tick`; by default ``verbose`` decides.
        """
        before = dict(self.__dict__)
        if checkpoints is not None and not isinstance(checkpoints, Checkpoints):
            checkpoints = Checkpoints(checkpoints)
        try:
            return self._fit(X, checkpoints, progress)
        except BaseException:  # including interrupts: restore the model
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _fit(
        self, X: Any, checkpoints: Checkpoints | None = None, listener: Progress | None = None
    ) -> MLC:
        check_parameters(self)
        quiet = nullcontext(listener or silent)
        with console_progress() if self.verbose and listener is None else quiet as progress:
            encoded = self._encode_images(X, progress)
            array = check_samples(self, X if encoded is None else encoded.embeddings)
            self._check_counts(len(array))
            samples, self._scaling = prepare(array)
            self.config_ = self._resolve(self._scaling.shape, len(array))
            run = begin(
                samples,
                self.config_,
                seed=self._seed(checkpoints),
                fabric=make_fabric(self.device, self.precision),
                n_clusters=self.n_clusters,
                progress=progress,
                checkpoints=checkpoints,
                callbacks=self.callbacks or (),
                make_views=self._make_views(encoded),
                backbone=self.backbone if isinstance(self.backbone, nn.Module) else None,
            )
            solution = solve(run, self.n_clusters, objective=self.objective or mlc_objective)
        self.config_, self.neighbors_ = solution.config, run.neighbors
        self._network = solution.network
        self._fit_output = solution.output, _float_dtype(array)
        self.history_ = solution.history
        self._adopt(solution.labels)
        return self

    def _encode_images(self, X: Any, progress: Progress) -> EncodedImages | None:
        """Load the encoder, if there is one, and encode; raise on invalid options before that."""
        self._encoder: Encoder | None = None
        self._encoder_record: dict[str, Any] | None = None
        if self.encoder is None:
            source = self.views or (self.settings or {}).get("views.source", "auto")
            if source != "auto" and not callable(source):
                raise ValueError(
                    f"`views` of MLC is for images through an encoder, got {source!r} without "
                    "one; try encoder='lite2'"
                )
            return None
        if isinstance(X, EncodedImages):
            self._encoder, self._encoder_record = X.encoder, X.encoder.describe()
            return X
        if hasattr(X, "__len__"):
            self._check_counts(len(X))
            self._resolve((1,), len(X))  # its width is not known yet
        self._encoder = load_encoder(self.encoder, device=self.device)
        encoded = EncodedImages(
            self._encoder, X, cache=open_cache(self.cache_dir), progress=progress
        )
        self._encoder_record = self._encoder.describe()
        return encoded

    def _make_views(self, encoded: EncodedImages | None) -> Callable[..., ViewSampler]:
        make: Callable[..., ViewSampler] = ViewSampler
        if encoded is not None:
            make = encoded.views(self.config_.views, self._scaling)
        return partial(make, vary=self.views) if callable(self.views) else make

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> NDArray[np.floating]:
        """Fit, and return the features of X, which fit has computed already."""
        output, dtype = self.fit(X, y, **fit_params)._fit_output
        return output.Z.numpy().astype(dtype, copy=False)

    def __getstate__(self) -> dict[str, Any]:
        """All but Z and C of the fitted samples: a pickled model is as small as a saved one."""
        return {k: v for k, v in super().__getstate__().items() if k != "_fit_output"}

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_label_model")

    def _html_repr(self) -> str:
        """scikit-learn's diagram for notebooks, below a card of what was found."""
        diagram: str = estimator_html_repr(self)
        if not self.__sklearn_is_fitted__():
            return diagram
        sizes = np.bincount(self.labels_, minlength=self.n_clusters_).tolist()
        chosen = self.model_selection_.reason if self.model_selection_ else None
        return fitted_card(type(self).__name__, sizes, self.history_, chosen) + diagram

    def _check_counts(self, n: int) -> None:
        """Raise on an impossible number of clusters before training."""
        if self.n_clusters != "auto":
            if int(self.n_clusters) > n:
                raise ValueError(
                    f"n_clusters={self.n_clusters} of MLC must be at most n_samples={n}"
                )
            return
        if n < 5:
            raise ValueError(
                f"n_clusters='auto' of MLC needs at least 5 samples, got n_samples={n}; "
                "give a number"
            )
        if self.max_clusters is not None and self.max_clusters > n - 2:
            raise ValueError(
                f"max_clusters={self.max_clusters} of MLC must be at most n_samples - 2 = {n - 2}; "
                "leave it out"
            )

    def _adopt(self, labels: LabelModel) -> None:
        self._label_model = labels
        self.labels_ = labels.labels.copy()
        self.n_clusters_ = labels.n_clusters
        self.eigenvalues_ = labels.eigenvalues
        self.merge_tree_ = labels.merge_tree
        self.labelling_ = [dict(row) for row in labels.candidates]
        self.model_selection_: ModelSelection | None = labels.selection
        self.outlier_threshold_ = labels.outlier_threshold
        self._n_features_out = self.config_.network.dim

    def _resolve(self, shape: tuple[int, ...], n: int) -> Config:
        encoded = self.encoder is not None
        config = resolve(
            shape,
            n,
            self.n_clusters,
            preset="vectors" if encoded and self.preset == "auto" else self.preset,
            given=settings_of(self),
            settings=self.settings,
        )
        if encoded and config.views.source == "auto":
            config = config.override({"views.source": "neighbors"})
        return config

    def _seed(self, checkpoints: Checkpoints | None = None) -> int:
        if self.random_state is None:
            kept = None if checkpoints is None else checkpoints.identity().get("seed")
            if kept is not None:
                return int(kept)
        return seed_of(self.random_state)

    # ------------------------------------------------------------------ new samples

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Cluster of each sample: the arg max of :meth:`predict_proba`."""
        output, _ = self._encode(X)
        return self._label_model.predict(output.C)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probability of each cluster: the sum over its members j of Γ_xj, shape (m, k)."""
        output, _ = self._encode(X)
        return self._label_model.predict_proba(output.C)

    def transform(self, X: Any) -> NDArray[np.floating]:
        """Features Z of shape (m, d) on the unit sphere."""
        output, dtype = self._encode(X)
        return output.Z.numpy().astype(dtype, copy=False)

    def outlier_score(self, X: Any) -> NDArray[np.float64]:
        """How far each sample is from every cluster's subspace, in (0, 1]; high is far.

        Compare with ``outlier_threshold_``.
        """
        output, _ = self._encode(X)
        return self._label_model.outlier_score(output.Z)

    def assess(self, X: Any) -> Assessment:
        """Labels, probabilities, outlier scores and features of samples in one pass."""
        return self._assess(*self._encode(X))

    @property
    def holds_fit_output(self) -> bool:
        """Whether :meth:`assess_fitted` can be called: after fit, not after load or unpickling."""
        return hasattr(self, "_fit_output")

    def assess_fitted(self, rows: slice = slice(None)) -> Assessment:
        """What :meth:`assess` gives for (some rows of) the fitted samples, without encoding again.

        ``fit`` keeps Z and C in memory for this. They are neither saved nor pickled.
        """
        check_is_fitted(self)
        if not self.holds_fit_output:
            raise ValueError(
                "a loaded model does not hold the samples of fit; pass them, as in assess(X)"
            )
        output, dtype = self._fit_output
        return self._assess(Output(output.Z[rows], output.C[rows]), dtype)

    def _assess(self, output: Output, dtype: np.dtype[Any]) -> Assessment:
        probabilities = self._label_model.predict_proba(output.C)
        return Assessment(
            probabilities.argmax(axis=1),
            probabilities,
            self._label_model.outlier_score(output.Z),
            output.Z.numpy().astype(dtype, copy=False),
        )

    def score(self, X: Any, y: Any = None) -> float:
        """Rate reduction of the features of X under their predicted clusters (Eq. 1), in nats.

        Needs no labels and can compare models of equal ``dim``. R_c is taken over the predicted
        point-cluster membership Π, which makes it comparable between values of η.
        """
        output, _ = self._encode(X)
        eps_sq = self.config_.stage2.eps_sq
        labels = torch.from_numpy(self._label_model.predict(output.C))
        parts = [output.Z[labels == j] for j in range(self.n_clusters_)]
        R_c = sum(
            len(part) / len(labels) * coding_rate(part, eps_sq) for part in parts if len(part)
        )
        return float(coding_rate(output.Z, eps_sq) - R_c)

    def labels_at(self, k: int) -> NDArray[np.int64]:
        """Labels of the fitted samples when the merge tree is cut into k clusters."""
        check_is_fitted(self)
        return self._label_model.labels_at(k)

    def _encode(self, X: Any) -> tuple[Output, np.dtype[Any]]:
        check_is_fitted(self)
        array = check_samples(self, self._embedded(X), self._scaling)
        return self._network.encode(self._scaling.apply(array)), _float_dtype(array)

    def _embedded(self, X: Any) -> Any:
        """Samples as the network takes them: images of a model with an encoder go through it."""
        if self._encoder_record is None:
            return X
        if self._encoder is None:  # a model that was loaded
            self._encoder = restore_encoder(self._encoder_record, self.encoder, self.device)
        return embed_images(self._encoder, X, cache=open_cache(self.cache_dir))

    def explore(
        self,
        X: Any,
        *,
        images: Any = None,
        names: Sequence[str] | None = None,
        path: str | Path | None = None,
        **options: Any,
    ) -> Path:
        """Look at the clusters of X on a local page and correct them, as ``unbend explore`` does.

        Returns, when the page is stopped with Ctrl-C, the directory of the run with the
        corrections; ``unbend export`` and ``unbend predict --curated`` take it.

        Parameters
        ----------
        X : array-like
            The samples of fit.
        images : ndarray, optional
            Pictures to show for a model of embeddings.
        names : sequence of str, optional
            A name per sample; by default row numbers.
        path : path, optional
            Where to write the run, or an earlier one to go on with; by default a new temporary
            directory.
        **options
            ``port, read_only, open_browser, columns, text`` of :func:`unbend.explore.explore`.
        """
        check_is_fitted(self)
        from unbend.explore.temporary import explore_model

        return explore_model(self, X, images=images, names=names, path=path, **options)

    # ------------------------------------------------------------------ disk

    def save(self, path: str | Path) -> None:
        """Save the fitted model as a directory of safetensors and JSON."""
        check_is_fitted(self)
        from unbend import __version__

        label_tensors, label_values = self._label_model.state()
        tensors = {f"network.{k}": v for k, v in self._network.state_dict().items()}
        tensors |= {f"labels.{k}": v for k, v in label_tensors.items()}
        params = {k: v for k, v in self.get_params().items() if k != "random_state"}
        hooks = {k: params[k] for k in ("backbone", "views", "objective") if callable(params[k])}
        # A path or a name is kept; an encoder of another kind is found again by its record.
        for name in ("encoder", "pretrain", "backbone", "views", "objective"):
            params[name] = str(params[name]) if isinstance(params[name], (str, Path)) else None
        params["callbacks"] = None
        # Where to write is never taken from a model.
        params["cache_dir"] = None if self.cache_dir is None else "auto"
        values = {
            "unbend": __version__,
            "params": params,
            "config": self.config_.to_dict(),
            "scaling": self._scaling.to_dict(),
            "encoder": self._encoder_record,
            "hooks": {name: hook_name(hook) for name, hook in hooks.items()},
            "labels": label_values,
            "neighbors": self.neighbors_.to_dict(),
            "history": self.history_,
            "n_features_in": self.n_features_in_,
            "feature_names_in": getattr(self, "feature_names_in_", np.array([])).tolist(),
        }
        write_model(path, tensors, values)


def _float_dtype(array: NDArray[Any]) -> np.dtype[Any]:
    """Features have the dtype of the samples where that is floating point."""
    return array.dtype if array.dtype.kind == "f" else np.dtype(np.float64)


# What wrong values in a file from others can raise.
_DAMAGE = (
    KeyError, IndexError, TypeError, ValueError, AttributeError, RuntimeError, OverflowError,
    MemoryError,
)  # fmt: skip
_DEEPEST = 100  # layers; no preset comes near


def load(path: str | Path, *, encoder: Any = None, backbone: nn.Module | None = None) -> MLC:
    """Load a model that :meth:`MLC.save` wrote. Nothing in the files is executed.

    A model with an encoder loads it when it first sees images. ``encoder`` gives it again, where
    it was a callable or has moved; one with other weights is refused. ``backbone`` gives the code
    of a backbone that was a module; it gets the saved weights.
    """
    tensors, values = read_model(path)
    name = str((values.get("hooks") or {}).get("backbone", ""))
    if name.startswith(GIVEN) != (backbone is not None):
        raise ValueError(
            f"{str(path)!r} has a backbone of its own: leave `backbone` out"
            if backbone is not None
            else f"the backbone of {str(path)!r} was a module of class "
            f"{name.removeprefix(GIVEN)!r}, of which only the weights are saved; give it again: "
            "load(path, backbone=...)"
        )
    try:
        model = _rebuild(tensors, values, backbone)
        model.encoder = model.encoder if encoder is None else encoder
        return model
    except _DAMAGE as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise ValueError(f"{str(path)!r} is not a model of this version: {reason}") from error


def _rebuild(tensors: dict[str, Tensor], values: dict[str, Any], backbone: nn.Module | None) -> MLC:
    model = MLC(**values["params"])
    # Whoever made the file must not choose where this machine writes
    model.cache_dir = None if model.cache_dir is None else "auto"
    model.config_ = Config.from_dict(values["config"])
    model._scaling = Scaling.from_dict(values["scaling"])
    model._encoder, model._encoder_record = None, values.get("encoder")
    check_parameters(model)
    check_config(model.config_)
    if max(model.config_.network.depth, model.config_.network.head_depth) > _DEEPEST:
        raise ValueError(f"a network deeper than {_DEEPEST} layers")
    # Sizes in a file from others reserve no memory; the caller's own module runs as it is.
    with torch.device("meta") if backbone is None else nullcontext():
        network = build_network(model._scaling.shape, model.config_.network, 0, backbone)
    model.backbone = model.backbone if backbone is None else backbone
    weights = {
        k.removeprefix("network."): v for k, v in tensors.items() if k.startswith("network.")
    }
    network = network.to(weights["mean"].dtype)
    network.mean, network.std = weights["mean"], weights["std"]
    network.load_state_dict(weights, assign=True)
    model._network = network.eval()
    labels = {k.removeprefix("labels."): v for k, v in tensors.items() if k.startswith("labels.")}
    model.neighbors_ = NeighborChoice.from_dict(
        values.get("neighbors", {"metric": model.config_.views.metric, "scores": {}})
    )
    model.history_ = values["history"]
    model.n_features_in_ = values["n_features_in"]
    if values["feature_names_in"]:
        model.feature_names_in_ = np.asarray(values["feature_names_in"], dtype=object)
    model._adopt(LabelModel.from_state(labels, values["labels"]))
    return model
