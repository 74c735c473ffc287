"""MLC, the scikit-learn estimator, and load."""

from __future__ import annotations

import shutil
import tempfile
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
from unbend.begin import Run, begin
from unbend.config import Config, check_config, costs, plan, resolve
from unbend.devices import make_fabric
from unbend.encoding import (
    EncodedImages,
    check_record,
    embed_images,
    embed_texts,
    open_cache,
    restore_encoder,
)
from unbend.functional import coding_rate
from unbend.hub import download_model, model_card, upload_model
from unbend.hub.card import run_facts
from unbend.labels import LabelModel, ModelSelection, Surroundings, first_look, take_in
from unbend.networks import GIVEN, Encoder, build_network, load_encoder
from unbend.networks.network import Output
from unbend.notebook import choices, count, fitted_card, why
from unbend.parameters import (
    check_parameters,
    hook_name,
    seed_of,
    settings_of,
    unchanged_on_error,
)
from unbend.progress import Callback, Progress, Tick, console_progress, silent
from unbend.runs import read_model, write_model
from unbend.samples import NeighborChoice, Scaling, ViewSampler, check_samples, prepare
from unbend.texts import TextEncoder, load_text_encoder, restore_text_encoder
from unbend.threads import use_threads
from unbend.training import Checkpoints

__all__ = ["MLC", "Assessment", "Update", "load"]


_FEW_SAMPLES = 5_000  # up to here the labels, too, are quickest on the threads of a step


class Assessment(NamedTuple):
    """Predictions of a model for some samples, one row each."""

    labels: NDArray[np.int64]
    probabilities: NDArray[np.float64]
    outlier_score: NDArray[np.float64]
    Z: NDArray[np.floating]


class Update(NamedTuple):
    """What :meth:`MLC.update` made of new samples."""

    labels: NDArray[np.int64]  # old clusters, new ones, or -1 for samples that fit nowhere yet
    new_clusters: list[int]
    n_waiting: int  # samples that fit nowhere, of this update and earlier ones


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
    budget : {"quick", "normal", "thorough"} or float, default="normal"
        How long a fit may take, by name or in seconds. It plans the steps of stage 1 for two cores
        of a laptop: ``"normal"`` is 3 minutes up to 10,000 samples and at most 10. The plan depends
        on data and settings only, so results repeat. What you set yourself is never cut.
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
    min_clusters, max_clusters : int, optional
        Smallest and largest number that ``n_clusters="auto"`` considers.
    outliers : {"score", "label"}, default="score"
        ``"label"`` gives outliers the label -1, in ``labels_`` and ``predict``. By default they
        keep their nearest cluster and are told by ``outlier_score`` only.
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
        The metric of the neighbours, and the scores of the other metrics' graphs.
    eigenvalues_ : ndarray
        Leading spectrum of the membership.
    outlier_threshold_ : float
        The outlier score that one fresh sample of the same clusters in a hundred exceeds.
    updates_ : list of dict
        A row per :meth:`update`: how many samples fitted, how many wait, the new clusters.
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
    # Of a model of texts; a loaded one restores the encoder from its state when it is needed.
    _text: TextEncoder | None = None
    _text_state: tuple[dict[str, Tensor], dict[str, Any]] | None = None
    # How a command read the samples of fit, see Source.reading; predict reads new ones alike.
    _reading: dict[str, Any] | None = None

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
        budget: str | float = "normal",
        eta: float | str | None = None,
        eps_sq: float | None = None,
        train_backbone: bool | None = None,
        encoder: Any = None,
        views: str | Callable[[Tensor, torch.Generator], Tensor] | None = None,
        objective: Objective | None = None,
        callbacks: Sequence[Callback] | None = None,
        cache_dir: str | Path | None = "auto",
        settings: dict[str, Any] | None = None,
        min_clusters: int | None = None,
        max_clusters: int | None = None,
        outliers: str = "score",
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
        self.budget = budget
        self.eta = eta
        self.eps_sq = eps_sq
        self.train_backbone = train_backbone
        self.encoder = encoder
        self.views = views
        self.objective = objective
        self.callbacks = callbacks
        self.cache_dir = cache_dir
        self.settings = settings
        self.min_clusters = min_clusters
        self.max_clusters = max_clusters
        self.outliers = outliers
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
        X : array-like, Tensor, table, list, data set or folder
            Vectors (n, p), or images (n, h, w), (n, c, h, w) or (n, h, w, c), uint8 or float; a
            pandas, polars or Arrow table, of which columns that look like ids or labels are left
            out with a warning; a list of texts, of image files or of PIL images; a torch
            ``Dataset`` or ``DataLoader``, or a Hugging Face data set; a folder of images or
            texts; with an encoder also :class:`~unbend.encoding.EncodedImages`, which it has seen
            before.
        y : None
            Ignored, present for scikit-learn.
        checkpoints : path or Checkpoints, optional
            Where to save the state of training, every few minutes and on an interrupt. Calling
            ``fit`` again with the same samples, settings and seed resumes from there, with the
            result of an uninterrupted run. With ``random_state=None`` the seed is taken from the
            checkpoint.
        progress : callable, optional
            Receives :class:`~unbend.progress.Tick`; by default ``verbose`` decides.
        """
        if checkpoints is not None and not isinstance(checkpoints, Checkpoints):
            checkpoints = Checkpoints(checkpoints)
        with unchanged_on_error(self):
            return self._fit(X, checkpoints, progress)

    def _fit(
        self, X: Any, checkpoints: Checkpoints | None = None, listener: Progress | None = None
    ) -> MLC:
        check_parameters(self)
        quiet = nullcontext(listener or silent)
        with console_progress() if self.verbose and listener is None else quiet as progress:
            X = self._read(X, fitting=True)
            encoded = None
            if self._has_texts(X, fitting=True):
                X = self._embed_texts(X, progress)
            else:
                encoded = self._encode_images(X, progress)
            array = check_samples(self, X if encoded is None else encoded.embeddings)
            self._check_counts(len(array))
            samples, self._scaling = prepare(array)
            self.config_ = self._resolve(self._scaling.shape, len(array))
            planned = plan(
                self.config_, self._scaling.shape, len(array), self.n_clusters, self.budget
            )
            progress(Tick("plan", 1, 1, text=planned.sentence()))
            few = costs(self.config_, self._scaling.shape, len(array)).threads
            with use_threads(few if len(array) <= _FEW_SAMPLES else 0):
                run = begin(
                    samples,
                    self.config_,
                    seed=self._seed(checkpoints),
                    fabric=make_fabric(self.device, self.precision),
                    n_clusters=self.n_clusters,
                    progress=planned.watch(progress),
                    checkpoints=checkpoints,
                    callbacks=self.callbacks or (),
                    make_views=self._make_views(encoded),
                    backbone=self.backbone if isinstance(self.backbone, nn.Module) else None,
                )
                self._show_first(run, progress)
                solution = solve(run, self.n_clusters, objective=self.objective or mlc_objective)
        self.config_, self.neighbors_ = solution.config, run.neighbors
        self._network = solution.network
        self._fit_output = solution.output, _float_dtype(array)
        self._fit_scores = solution.surroundings.score(samples)
        self.history_ = solution.history
        self._adopt(solution.labels, solution.surroundings)
        if self.outliers == "label":
            self.labels_[self._fit_scores > self.outlier_threshold_] = -1
        return self

    def _show_first(self, run: Run, progress: Progress) -> None:
        """A provisional result for whoever looks on."""
        if progress is silent or self.n_clusters == "auto":
            return
        text = first_look(run.samples, int(self.n_clusters), run.neighbors.metric)
        if text is not None:
            progress(Tick("first look", 1, 1, text=text))

    def _read(self, X: Any, *, fitting: bool) -> Any:
        """Samples of any form as an array, a table of features, or texts."""
        # Pillow takes time to import.
        from unbend.forms import as_samples, pick_columns
        from unbend.tables import is_table

        if fitting:
            self._encoder: Encoder | None = None
            self._encoder_record: dict[str, Any] | None = None
        if isinstance(X, EncodedImages):
            return X
        if isinstance(X, (np.ndarray, Tensor)):
            return as_samples(self._as_batch(X, fitting))
        X = as_samples(X, image_size=partial(self._side, fitting=fitting))
        if is_table(X):
            return pick_columns(X, None if fitting else getattr(self, "feature_names_in_", None))
        return X

    def _as_batch(self, X: Any, fitting: bool) -> Any:
        """A single image of the fitted shape becomes a batch of one."""
        if fitting or not self._scaling.is_image:
            return X
        c, h, w = self._scaling.shape
        alone = [(c, h, w), (h, w, c)] if c > 1 else [(h, w), (1, h, w), (h, w, 1)]
        return X[None] if tuple(X.shape) in alone and X.shape != (1, h, w) else X

    def _side(self, *, fitting: bool) -> int | None:
        """Side of the images that are decoded for this model; None is the usual one."""
        if not fitting:
            return self.image_side
        if self.encoder is None:
            return None
        self._encoder = load_encoder(self.encoder, device=self.device)
        side = self._encoder.resolution
        return max(side) if isinstance(side, tuple) else side

    @property
    def image_side(self) -> int | None:
        """Side to which image files are scaled for this model; None if it takes no images."""
        record, shape = self._encoder_record, self._scaling.shape
        side = record["resolution"] if record is not None else None
        if record is None and len(shape) == 3:
            side = shape[-1]
        return max(side) if isinstance(side, (list, tuple)) else side

    def _has_texts(self, X: Any, *, fitting: bool) -> bool:
        """Whether samples are texts; raise if the model was fitted on others."""
        from unbend.forms import is_text_array

        texts = is_text_array(X)
        if fitting:
            self._text, self._text_state = None, None
        elif texts != (self._text_state is not None):
            kind = "texts" if self._text_state is not None else f"samples {self._scaling.shape}"
            raise ValueError(
                f"X holds {'texts' if texts else 'no texts'}, but the model was fitted on {kind}"
            )
        return texts

    def _embed_texts(self, texts: Any, progress: Progress = silent) -> NDArray[np.float32]:
        """Vectors of texts; in fit the encoder is chosen, and TF-IDF learned."""
        if self._text_state is None:
            self._check_counts(len(texts))
            self._text = load_text_encoder(self.encoder, texts, self.device)
            self._text_state = self._text.state()
        elif self._text is None:  # a model that was loaded
            self._text = restore_text_encoder(*self._text_state, self.encoder, self.device)
        return embed_texts(self._text, texts, cache=open_cache(self.cache_dir), progress=progress)

    def _encode_images(self, X: Any, progress: Progress) -> EncodedImages | None:
        """Load the encoder, if there is one, and encode; raise on invalid options before that."""
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
        self._encoder = self._encoder or load_encoder(self.encoder, device=self.device)
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
        """All but Z and C of the fitted samples: a pickled model is as small as a saved one.

        The encoder of texts is restored from its state, as after load.
        """
        left_out = ("_fit_output", "_fit_scores", "_text")
        return {k: v for k, v in super().__getstate__().items() if k not in left_out}

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_label_model")

    def _html_repr(self) -> str:
        """scikit-learn's diagram for notebooks, below a card of what was found."""
        diagram: str = estimator_html_repr(self)
        if not self.__sklearn_is_fitted__():
            return diagram
        sizes = np.bincount(self._label_model.labels, minlength=self.n_clusters_).tolist()
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
        low, high = self.min_clusters, self.max_clusters
        if low is not None and low > (n - 2 if high is None else high):
            most = f"n_samples - 2 = {n - 2}" if high is None else f"max_clusters={high}"
            raise ValueError(
                f"min_clusters={low} of MLC must be at most {most}; take a smaller one"
            )
        if self.max_clusters is not None and self.max_clusters > n - 2:
            raise ValueError(
                f"max_clusters={self.max_clusters} of MLC must be at most n_samples - 2 = {n - 2}; "
                "leave it out"
            )

    def _adopt(self, labels: LabelModel, surroundings: Surroundings) -> None:
        self._label_model, self._surroundings = labels, surroundings
        self._waiting = surroundings.references[:0]
        self.updates_: list[dict[str, Any]] = []
        self.labels_ = labels.labels.copy()
        self.n_clusters_ = labels.n_clusters
        self.eigenvalues_ = labels.eigenvalues
        self.merge_tree_ = labels.merge_tree
        self.labelling_ = [dict(row) for row in labels.candidates]
        self.model_selection_: ModelSelection | None = labels.selection
        self.outlier_threshold_ = surroundings.threshold
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
            budget=self.budget,
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
        """Cluster of each sample: the arg max of :meth:`predict_proba`.

        With ``outliers="label"``, outliers get -1.
        """
        samples, _ = self._scaled(X)
        probabilities = self._probabilities(self._network.encode(samples).C, samples)
        noise = None if self.outliers == "score" else self._surroundings.score(samples)
        return self._labels(probabilities, noise)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probability of each cluster: the sum over its members j of Γ_xj, shape (m, k).

        Calibrated by the agreement of neighbours, see :mod:`unbend.labels.confidence`.
        """
        samples, _ = self._scaled(X)
        return self._probabilities(self._network.encode(samples).C, samples)

    def _probabilities(self, C: Tensor, samples: Tensor | None) -> NDArray[np.float64]:
        """Of the clusters of the fit, and of those that updates have added."""
        fitted = self._label_model.predict_proba(C)
        added = self.n_clusters_ - fitted.shape[1]
        if added == 0 or samples is None:
            return fitted
        groups = (self._surroundings.groups - fitted.shape[1]).clamp_min(-1) + 1
        votes = self._surroundings.votes(samples, groups, added + 1).numpy()
        return np.concatenate([fitted * votes[:, :1], votes[:, 1:]], axis=1)

    def _labels(
        self, probabilities: NDArray[np.float64], scores: NDArray[np.float64] | None
    ) -> NDArray[np.int64]:
        labels: NDArray[np.int64] = probabilities.argmax(axis=1)
        if self.outliers == "label" and scores is not None:
            labels[scores > self.outlier_threshold_] = -1
        return labels

    def transform(self, X: Any) -> NDArray[np.floating]:
        """Features Z of shape (m, d) on the unit sphere."""
        output, dtype = self._encode(X)
        return output.Z.numpy().astype(dtype, copy=False)

    def outlier_score(self, X: Any) -> NDArray[np.float64]:
        """How lonely each sample is among those of the fit, in (0, 1): usual ones have 1/2.

        See :class:`unbend.labels.Surroundings`. Compare with ``outlier_threshold_``.
        """
        samples, _ = self._scaled(X)
        return self._surroundings.score(samples)

    def assess(self, X: Any) -> Assessment:
        """Labels, probabilities, outlier scores and features of samples in one pass."""
        samples, dtype = self._scaled(X)
        output = self._network.encode(samples)
        probabilities = self._probabilities(output.C, samples)
        return self._assess(output, dtype, probabilities, self._surroundings.score(samples))

    def embed(self, X: Any) -> Any:
        """What the network gets: vectors of images or texts by the encoder, else the samples."""
        check_is_fitted(self)
        X = self._read(X, fitting=False)
        return self._embed_texts(X) if self._has_texts(X, fitting=False) else self._embedded(X)

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
        part = Output(output.Z[rows], output.C[rows])
        probabilities = self._probabilities(part.C, None)
        return self._assess(part, dtype, probabilities, self._fit_scores[rows])

    def _assess(
        self,
        output: Output,
        dtype: np.dtype[Any],
        probabilities: NDArray[np.float64],
        scores: NDArray[np.float64],
    ) -> Assessment:
        Z = output.Z.numpy().astype(dtype, copy=False)
        return Assessment(self._labels(probabilities, scores), probabilities, scores, Z)

    def update(self, X: Any, *, min_size: int | None = None) -> Update:
        """Label samples that came after the fit, and look for new clusters among them.

        Samples that fit get their cluster. The others are collected, over several updates. Where
        enough of them lie close together they become a new cluster, numbered after those that
        exist; ``predict`` knows it from then on. Nothing is trained, and no old label changes.
        ``updates_`` records what happened; ``save`` keeps it with the model.

        Parameters
        ----------
        X : array-like or Tensor
            New samples, as for :meth:`predict`.
        min_size : int, optional
            Fewest samples of a new cluster, at least 3; by default a quarter of the smallest
            cluster of the fit, from 10 to 50.

        Returns
        -------
        Update
            Labels (-1 for samples that fit nowhere yet), new clusters, number of samples waiting.
        """
        samples, _ = self._scaled(X)
        least = self._least(min_size)
        labels = self._probabilities(self._network.encode(samples).C, samples).argmax(axis=1)
        lonely = self._surroundings.score(samples) > self.outlier_threshold_
        rows = self._surroundings.place(samples[torch.from_numpy(lonely)])
        found = take_in(self._surroundings, rows, self._waiting, least, self.n_clusters_)
        labels[lonely] = found.groups
        new = [*range(self.n_clusters_, self.n_clusters_ + len(found.from_before))]
        self._surroundings, self._waiting = found.surroundings, found.waiting
        self.n_clusters_ += len(new)
        clusters = [
            {"cluster": q, "size": int((labels == q).sum()) + before, "had_waited": before}
            for q, before in zip(new, found.from_before, strict=True)
        ]
        row = {"n": len(labels), "n_fitted": int((~lonely).sum()), "n_waiting": len(self._waiting)}
        self.updates_.append({**row, "new_clusters": clusters})
        return Update(labels, new, len(self._waiting))

    def _least(self, min_size: int | None) -> int:
        """Fewest samples of a new cluster."""
        if min_size is None:
            sizes = np.bincount(self._label_model.labels, minlength=self._label_model.n_clusters)
            return int(np.clip(sizes.min() // 4, 10, 50))
        if isinstance(min_size, bool) or not isinstance(min_size, int) or min_size < 3:
            raise ValueError(f"`min_size` of update must be an integer >= 3, got {min_size!r}")
        return min_size

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

    def summary(self) -> None:
        """Print what ``unbend cluster`` prints: what was read, what was chosen, what was found."""
        check_is_fitted(self)
        n = len(self.labels_)
        kind = "images" if self._scaling.is_image or self._encoder_record else "vectors"
        kind = "texts" if self._text_state is not None else kind
        print(f"{n} {kind}; {self.describe()}")
        print(choices(self.config_, self.neighbors_, self.labelling_))
        selection = self.model_selection_
        how = "" if selection is None else f"; {selection.reason}"
        print(f"{count(n, 'sample')} in {count(self.n_clusters_, 'cluster')}{how}")
        sizes = np.bincount(self.labels_, minlength=self.n_clusters_).tolist()
        more = "" if len(sizes) <= 12 else f", ... {sizes[-1]}"
        print(f"sizes: {', '.join(map(str, sizes[:12]))}{more}")

    def describe(self) -> str:
        """Preset and encoder of a fitted model, and why they were taken, in one line."""
        named = None if self._encoder_record is None else str(self._encoder_record["name"])
        named = named if self._text_state is None else str(self._text_state[1]["name"])
        return why(self.preset, self.config_.preset, named, self._text_state is not None)

    def labels_at(self, k: int) -> NDArray[np.int64]:
        """Labels of the fitted samples when the merge tree is cut into k clusters.

        With ``outliers="label"``, outliers stay -1.
        """
        check_is_fitted(self)
        labels = self._label_model.labels_at(k)
        return np.where(self.labels_ < 0, -1, labels)

    def _scaled(self, X: Any) -> tuple[Tensor, np.dtype[Any]]:
        """Samples as the network takes them, and the dtype of their features."""
        check_is_fitted(self)
        array = check_samples(self, self.embed(X), self._scaling)
        return self._scaling.apply(array), _float_dtype(array)

    def _encode(self, X: Any) -> tuple[Output, np.dtype[Any]]:
        samples, dtype = self._scaled(X)
        return self._network.encode(samples), dtype

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
        around, around_values = self._surroundings.state()
        tensors |= {f"surroundings.{k}": v for k, v in around.items()}
        tensors["update.waiting"] = self._waiting.contiguous()
        tensors["noise"] = torch.from_numpy(np.flatnonzero(self.labels_ < 0))
        text_tensors, text_values = self._text_state or ({}, None)
        tensors |= {f"text.{k}": v for k, v in text_tensors.items()}
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
            "text": text_values,
            "reading": self._reading,
            "hooks": {name: hook_name(hook) for name, hook in hooks.items()},
            "labels": label_values,
            "surroundings": around_values,
            "updates": self.updates_,
            "neighbors": self.neighbors_.to_dict(),
            "history": self.history_,
            "n_features_in": self.n_features_in_,
            "feature_names_in": getattr(self, "feature_names_in_", np.array([])).tolist(),
        }
        write_model(path, tensors, values)

    def push_to_hub(
        self,
        repo: str,
        *,
        run: str | Path | None = None,
        license: str | None = None,
        picture: str | Path | None = None,
        private: bool | None = None,
        token: str | None = None,
    ) -> str:
        """Upload the model and a card that describes it to the Hugging Face hub.

        Needs ``pip install 'unbend[hub]'``, and a token that may write (``hf auth login``).

        Parameters
        ----------
        repo : str
            ``"OWNER/NAME"``; created if it does not exist.
        run : path, optional
            The run that made the model; the card then names the data and the scores.
        license : str, optional
            For the card, such as ``"mit"``.
        picture : path, optional
            A PNG file for the card.
        private : bool, optional
            Whether a new repository is private; None leaves it to the hub's settings.
        token : str, optional
            By default the one that is logged in.

        Returns
        -------
        str
            Address of the repository.
        """
        check_is_fitted(self)
        facts = self._facts() | ({} if run is None else run_facts(run))
        if picture is not None and Path(picture).suffix != ".png":
            raise ValueError(f"`picture` must be a .png file, got {str(picture)!r}")
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / "model"
            self.save(folder)
            if picture is not None:
                shutil.copyfile(picture, folder / "map.png")
            shown = None if picture is None else "map.png"
            card = model_card(facts, repo=repo, license=license, picture=shown)
            (folder / "README.md").write_text(card, encoding="utf-8")
            return upload_model(
                folder, repo, private=private, token=token, message="Upload a model of unbend"
            )

    def _facts(self) -> dict[str, Any]:
        from unbend import __version__

        return {
            "n": len(self.labels_),
            "sizes": np.bincount(self.labels_, minlength=self.n_clusters_).tolist(),
            "dim": self.config_.network.dim,
            "shape": self._scaling.shape,
            "encoder": (self._encoder_record or {}).get("name"),
            "unbend": __version__,
        }

    @classmethod
    def from_pretrained(
        cls,
        repo_or_dir: str | Path,
        *,
        revision: str | None = None,
        token: str | None = None,
        encoder: Any = None,
        backbone: nn.Module | None = None,
    ) -> MLC:
        """Load a model from a directory, a run, or a repository on the Hugging Face hub.

        Only ``model.safetensors`` and ``model.json`` are downloaded. Nothing in them is executed.

        Parameters
        ----------
        repo_or_dir : str or path
            A directory of :meth:`save`, a run, or ``"OWNER/NAME"`` on the hub.
        revision : str, optional
            Branch, tag or commit of the repository.
        token : str, optional
            For a private repository; by default the one that is logged in.
        encoder, backbone
            As in :func:`load`.
        """
        path = Path(repo_or_dir)
        if path.is_dir():
            if revision is not None:
                raise ValueError(f"`revision` is for the hub; {str(path)!r} is a directory")
            path = path / "model" if (path / "model").is_dir() else path
        else:
            path = download_model(str(repo_or_dir), revision=revision, token=token)
        return load(path, encoder=encoder, backbone=backbone)


def _float_dtype(array: NDArray[Any]) -> np.dtype[Any]:
    """Features have the dtype of the samples where that is floating point."""
    return array.dtype if array.dtype.kind == "f" else np.dtype(np.float64)


# What invalid values in an untrusted file can raise.
_DAMAGE = (
    KeyError, IndexError, TypeError, ValueError, AttributeError, RuntimeError, OverflowError,
    MemoryError,
)  # fmt: skip


def load(path: str | Path, *, encoder: Any = None, backbone: nn.Module | None = None) -> MLC:
    """Load the model of a run, or one that :meth:`MLC.save` wrote. Nothing in them is executed.

    A model with an encoder loads it when it first sees images. Pass ``encoder`` if it was a
    callable or has moved; an encoder with other weights is rejected. Pass ``backbone`` if the
    backbone was a module; it receives the saved weights.
    """
    if (Path(path) / "model").is_dir() and not (Path(path) / "model.json").exists():
        path = Path(path) / "model"  # the directory of a run
    tensors, values = read_model(path)
    hooks = values.get("hooks")
    name = str(hooks.get("backbone", "")) if isinstance(hooks, dict) else ""
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
    # An untrusted file must not choose where this machine writes.
    model.cache_dir = None if model.cache_dir is None else "auto"
    model.config_ = Config.from_dict(values["config"])
    model._scaling = Scaling.from_dict(values["scaling"])
    check_record(values.get("encoder"))
    model._encoder, model._encoder_record = None, values.get("encoder")
    check_parameters(model)
    check_config(model.config_)
    # Sizes from an untrusted file must not allocate memory; the caller's module is used as it is.
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
    labels, around = (
        {k.removeprefix(part): v for k, v in tensors.items() if k.startswith(part)}
        for part in ("labels.", "surroundings.")
    )
    model.neighbors_ = NeighborChoice.from_dict(
        values.get("neighbors", {"metric": model.config_.views.metric, "scores": {}})
    )
    text = {k.removeprefix("text."): v for k, v in tensors.items() if k.startswith("text.")}
    if values.get("text") is not None:
        model._text_state = text, values["text"]
        if text:  # checks that words and weights fit
            model._text = restore_text_encoder(text, values["text"], None, "cpu")
    model._reading = values.get("reading")
    model.history_ = values["history"]
    model.n_features_in_ = values["n_features_in"]
    if values["feature_names_in"]:
        model.feature_names_in_ = np.asarray(values["feature_names_in"], dtype=object)
    surroundings = Surroundings.from_state(around, values["surroundings"])
    model._adopt(LabelModel.from_state(labels, values["labels"]), surroundings)
    model.labels_[tensors["noise"].numpy()] = -1
    model._waiting, model.updates_ = tensors["update.waiting"], list(values["updates"])
    if model._waiting.shape[1:] != surroundings.references.shape[1:]:
        raise ValueError("the waiting samples do not fit the references")
    groups = surroundings.groups
    added = torch.unique(groups[groups >= 0]).tolist()
    if added != [*range(model.n_clusters_, model.n_clusters_ + len(added))]:
        raise ValueError("the clusters of updates are not numbered after those of the fit")
    model.n_clusters_ += len(added)
    return model
