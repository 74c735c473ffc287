"""The parameters of MLC and its fit; what it does afterwards is in ``fitted``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from unbend.algorithm import Objective, mlc_objective, solve
from unbend.begin import Run, Seen, begin, look_at
from unbend.config import Config, costs, plan, resolve
from unbend.devices import make_fabric
from unbend.encoding import EncodedImages
from unbend.estimator.files import load_model
from unbend.estimator.fitted import FittedModel, float_dtype
from unbend.estimator.reading import Reader
from unbend.labels import first_look
from unbend.memory import release_freed
from unbend.parameters import check_parameters, seed_of, settings_of, unchanged_on_error
from unbend.progress import Callback, Progress, Tick, console_progress, silent
from unbend.samples import ViewSampler, check_samples, prepare
from unbend.threads import use_threads
from unbend.training import Checkpoints

__all__ = ["MLC", "load"]

_FEW_SAMPLES = 5_000  # up to here the labels, too, are quickest on the threads of a step


class MLC(FittedModel):
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
        ``"vectors"``, depending on the shape of X; embeddings of an encoder are vectors, and so
        are the pixels of images that lie near linear subspaces, such as aligned faces, or on thin
        manifolds, such as turning objects. Vectors that are recognised as the pixels of other
        images are images. ``"paper"`` has the paper's settings, made for a GPU.
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
        only on data and settings, so results repeat. Steps and epochs that you set are never cut.
    eta : float or "auto", optional
        η, the weight of entropy in the membership. ``"auto"``, the default of ``"images"`` and
        ``"vectors"``, calibrates it to the number of clusters after stage 1.
    eps_sq : float, optional
        ε² of stage 2.
    train_backbone : bool, optional
        Let stage 2 train the backbone too.
    encoder : str, path, callable or Encoder, optional
        Images go through this frozen network first, as in ``"auto"`` (lite2, with the mirror images
        of up to 10,000), ``"lite2"``, ``"hf:NAME"`` or the file
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
        keep their nearest cluster, and only ``outlier_score`` tells them apart.
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
        Cluster of each sample, numbered by falling size. With ``outliers="label"`` outliers have
        -1; the numbering counts them in the cluster that they would be in.
    n_clusters_ : int
        Number of clusters.
    history_ : list of dict
        A row per training step: stage, R, R_c, delta_R, rank, ...
    model_selection_ : ModelSelection or None
        How the number of clusters was chosen, with ``n_clusters="auto"``.
    merge_tree_ : ndarray of shape (n_clusters_ - 1, 4)
        Which clusters merge next, as a SciPy linkage.
    labelling_ : list of dict
        The labellings that were compared, the one that was kept first, each with its score, between
        0 and 1, the size of its smallest cluster, and whether its clusters are separate parts of
        the neighbour graph.
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
        try:
            with unchanged_on_error(self):
                return self._fit(X, checkpoints, progress)
        finally:
            release_freed()  # a service that fits again and again stays as small as it can be

    def _fit(
        self, X: Any, checkpoints: Checkpoints | None = None, listener: Progress | None = None
    ) -> MLC:
        check_parameters(self)
        quiet = nullcontext(listener or silent)
        with console_progress() if self.verbose and listener is None else quiet as progress:
            X, encoded = self._encode_new(X, progress)
            array = check_samples(self, X)
            self._check_counts(len(array))
            samples, self._scaling, neighbors = self._look_at(array, progress)
            shape = self._scaling.network_shape
            self.config_ = self._resolve(shape, len(array))
            planned = plan(self.config_, shape, len(array), self.n_clusters, self.budget)
            progress(Tick("plan", 1, 1, text=planned.sentence()))
            few = costs(self.config_, shape, len(array)).threads
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
                    neighbors=neighbors,
                )
                self._show_first(run, progress)
                solution = solve(run, self.n_clusters, objective=self.objective or mlc_objective)
        self.config_, self.neighbors_ = solution.config, run.neighbors
        self._network = solution.network
        self._fit_output = solution.output, float_dtype(array)
        self._fit_scores = solution.surroundings.score(samples)
        self.history_ = solution.history
        self._adopt(solution.labels, solution.surroundings)
        if self.outliers == "label":
            self.labels_[self._fit_scores > self.outlier_threshold_] = -1
        return self

    def _encode_new(self, X: Any, progress: Progress) -> tuple[Any, EncodedImages | None]:
        """Samples of any form as an array or a table; images also as what the encoder saw."""
        from unbend.in_memory import is_text_array  # Pillow takes time to import

        options = self._encoder_options()
        self._reader = Reader()
        X = self._reader.read_new(X, options)
        if is_text_array(X):
            self._check_counts(len(X))
            return self._reader.encode_new_texts(X, options, progress), None
        self._check_before_encoding(X)
        encoded = self._reader.encode_new_images(X, options, progress)
        return (X, None) if encoded is None else (encoded.embeddings, encoded)

    def _check_before_encoding(self, X: Any) -> None:
        """Raise on invalid options for images before they are encoded."""
        if self.encoder is None:
            source = self.views or (self.settings or {}).get("views.source", "auto")
            if source != "auto" and not callable(source):
                raise ValueError(
                    f"`views` of MLC is for images through an encoder, got {source!r} without "
                    "one; try encoder='lite2'"
                )
        elif not isinstance(X, EncodedImages) and hasattr(X, "__len__"):
            self._check_counts(len(X))
            self._resolve((1,), len(X))  # its width is not known yet

    def _look_at(self, array: NDArray[Any], progress: Progress) -> Seen:
        """The scaled samples of fit; images may become vectors of their pixels, or the reverse."""
        samples, scaling = prepare(array)
        asked = {*settings_of(self), *(self.settings or {})}
        if callable(self.views):
            asked.add("views.source")
        encoded = self._reader.encoder_name is not None
        with use_threads(1 if len(array) <= _FEW_SAMPLES else 0):
            return look_at(
                samples,
                scaling,
                self.n_clusters,
                preset="vectors" if encoded else self.preset,
                asked=asked,
                progress=progress,
            )

    def _show_first(self, run: Run, progress: Progress) -> None:
        """Report a provisional result to the progress listener."""
        if progress is silent or self.n_clusters == "auto":
            return
        text = first_look(run.samples, int(self.n_clusters), run.neighbors.metric)
        if text is not None:
            progress(Tick("first look", 1, 1, text=text))

    def _make_views(self, encoded: EncodedImages | None) -> Callable[..., ViewSampler]:
        make: Callable[..., ViewSampler] = ViewSampler
        if encoded is not None:
            make = encoded.views(self.config_.views, self._scaling)
        return partial(make, vary=self.views) if callable(self.views) else make

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> NDArray[np.floating]:
        """Fit, and return the features of X, which fit has computed already."""
        output, dtype = self.fit(X, y, **fit_params)._fit_output
        return output.Z.numpy().astype(dtype, copy=False)

    def _check_counts(self, n: int) -> None:
        """Raise on an impossible number of clusters before training."""
        if self.n_clusters != "auto":
            if int(self.n_clusters) > n:
                raise ValueError(
                    f"n_clusters={self.n_clusters} of MLC must be at most n_samples={n}"
                )
            for name in ("min_clusters", "max_clusters"):
                if getattr(self, name) is not None:
                    raise ValueError(
                        f"`{name}` of MLC is for n_clusters='auto', got n_clusters="
                        f"{self.n_clusters}; leave one of them out"
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


def load(path: str | Path, *, encoder: Any = None, backbone: nn.Module | None = None) -> MLC:
    """Load the model of a run, or one that :meth:`MLC.save` wrote. Nothing in them is executed.

    A model with an encoder loads it when it first sees images. Pass ``encoder`` if it was a
    callable or has moved; an encoder with other weights is rejected. Pass ``backbone`` if the
    backbone was a module; it receives the saved weights.
    """
    return load_model(MLC, path, encoder=encoder, backbone=backbone)
