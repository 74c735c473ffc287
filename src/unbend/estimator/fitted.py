"""What a fitted model does: predict, assess, take in new samples, show and save itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

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

from unbend.config import Config
from unbend.estimator.files import card_of, find_model, load_model, push_model, save_model
from unbend.estimator.reading import EncoderOptions, Reader
from unbend.estimator.updates import Update, update_model
from unbend.functional import coding_rate
from unbend.labels import LabelModel, ModelSelection, Surroundings
from unbend.networks.network import Network, Output
from unbend.notebook import choices, count, fitted_card, why
from unbend.samples import NeighborChoice, Scaling, check_samples

__all__ = ["Assessment", "FittedModel", "float_dtype"]

_Model = TypeVar("_Model", bound="FittedModel")


class Assessment(NamedTuple):
    """Predictions of a model for some samples, one row each."""

    labels: NDArray[np.int64]
    probabilities: NDArray[np.float64]
    outlier_score: NDArray[np.float64]
    Z: NDArray[np.floating]


class FittedModel(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):
    """The part of MLC that works after fit or load."""

    # Parameters that matter after fit.
    preset: str
    encoder: Any
    outliers: str
    cache_dir: str | Path | None
    device: str
    # What fit finds, see the attributes of MLC.
    labels_: NDArray[np.int64]
    n_clusters_: int
    history_: list[dict[str, Any]]
    model_selection_: ModelSelection | None
    merge_tree_: NDArray[np.float64]
    labelling_: list[dict[str, Any]]
    neighbors_: NeighborChoice
    eigenvalues_: NDArray[np.float64]
    outlier_threshold_: float
    updates_: list[dict[str, Any]]
    config_: Config
    n_features_in_: int
    # The state behind it.
    _reader: Reader
    _scaling: Scaling
    _network: Network
    _label_model: LabelModel
    _surroundings: Surroundings
    _waiting: Tensor  # samples that fitted nowhere in the updates so far
    # How a command read the samples of fit, see Source.reading; predict reads new ones alike.
    _reading: dict[str, Any] | None = None
    # The run that the model was loaded from; the charts take features and labels from there.
    _run: Path | None = None
    # Only after fit in this process.
    _fit_output: tuple[Output, np.dtype[Any]]
    _fit_scores: NDArray[np.float64]

    def __getstate__(self) -> dict[str, Any]:
        """Leave out Z and C of the fitted samples: a pickled model is as small as a saved one."""
        left_out = ("_fit_output", "_fit_scores")
        return {k: v for k, v in super().__getstate__().items() if k not in left_out}

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_label_model")

    def _adopt(self, labels: LabelModel, surroundings: Surroundings) -> None:
        """Take over the result of training or of a file."""
        self._label_model, self._surroundings = labels, surroundings
        self._waiting = surroundings.references[:0]
        self.updates_ = []
        self.labels_ = labels.labels.copy()
        self.n_clusters_ = labels.n_clusters
        self.eigenvalues_ = labels.eigenvalues
        self.merge_tree_ = labels.merge_tree
        self.labelling_ = [dict(row) for row in labels.candidates]
        self.model_selection_ = labels.selection
        self.outlier_threshold_ = surroundings.threshold
        self._n_features_out = self.config_.network.dim

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

    def transform(self, X: Any) -> NDArray[np.floating]:
        """Features Z of shape (m, d) on the unit sphere."""
        output, dtype = self._encode(X)
        return output.Z.numpy().astype(dtype, copy=False)

    def outlier_score(self, X: Any) -> NDArray[np.float64]:
        """How far each sample is from those of the fit, in (0, 1); typical samples have 1/2.

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
        """The input of the network: the encoder's vectors of images or texts, else the samples."""
        check_is_fitted(self)
        columns = getattr(self, "feature_names_in_", None)
        options = self._encoder_options()
        return self._reader.embed(X, options, self._scaling, columns, self._reading)

    @property
    def image_side(self) -> int | None:
        """Side to which image files are scaled for this model; None if it takes no images."""
        return self._reader.image_side(self._scaling)

    def _encoder_options(self) -> EncoderOptions:
        return EncoderOptions(self.encoder, self.device, self.cache_dir)

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

    def _scaled(self, X: Any) -> tuple[Tensor, np.dtype[Any]]:
        """Samples as the network takes them, and the dtype of their features."""
        check_is_fitted(self)
        array = check_samples(self, self.embed(X), self._scaling)
        return self._scaling.apply(array), float_dtype(array)

    def _encode(self, X: Any) -> tuple[Output, np.dtype[Any]]:
        samples, dtype = self._scaled(X)
        return self._network.encode(samples), dtype

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
            Fewest samples of a new cluster, at least 8; by default a quarter of the smallest
            cluster of the fit, from 10 to 50.

        Returns
        -------
        Update
            Labels (-1 for samples that fit nowhere yet), new clusters, number of samples waiting.
        """
        samples, _ = self._scaled(X)
        return update_model(self, samples, min_size)

    # ------------------------------------------------------------------ the samples of fit

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
            raise ValueError("a loaded model does not hold the samples of fit; pass them as X")
        output, dtype = self._fit_output
        part = Output(output.Z[rows], output.C[rows])
        probabilities = self._probabilities(part.C, None)
        return self._assess(part, dtype, probabilities, self._fit_scores[rows])

    def labels_at(self, k: int) -> NDArray[np.int64]:
        """Labels of the fitted samples when the merge tree is cut into k clusters.

        With ``outliers="label"``, outliers stay -1.
        """
        check_is_fitted(self)
        labels = self._label_model.labels_at(k)
        return np.where(self.labels_ < 0, -1, labels)

    # ------------------------------------------------------------------ show

    def summary(self) -> None:
        """Print what ``unbend cluster`` prints: what was read, what was chosen, what was found."""
        check_is_fitted(self)
        n = len(self.labels_)
        kind = "images" if self._scaling.is_image or self._reader.record else "vectors"
        kind = "texts" if self._reader.is_of_texts else kind
        print(f"{n} {kind}; {self.describe()}")
        print(choices(self.config_, self.neighbors_, self.labelling_))
        print(f"{count(n, 'sample')} in {count(self._label_model.n_clusters, 'cluster')}")
        if self.model_selection_ is not None:
            print("\n".join(self.model_selection_.describe()))
        sizes = self._sizes()
        more = "" if len(sizes) <= 12 else f", ... {sizes[-1]}"
        print(f"sizes: {', '.join(map(str, sizes[:12]))}{more}")
        if self.outliers == "label":
            print(f"{count(int((self.labels_ < 0).sum()), 'outlier')} labelled -1")
        added = self.n_clusters_ - self._label_model.n_clusters
        if added:
            print(f"{count(added, 'cluster')} added by {count(len(self.updates_), 'update')}")

    def _sizes(self) -> list[int]:
        """Samples of fit in each cluster, without those labelled as outliers."""
        found, k = self.labels_[self.labels_ >= 0], self._label_model.n_clusters
        sizes: list[int] = np.bincount(found, minlength=k).tolist()
        return sizes

    def describe(self, because: str = "") -> str:
        """Preset and encoder of a fitted model, and why they were chosen, in one line."""
        name, texts = self._reader.encoder_name, self._reader.is_of_texts
        return why(self.preset, self.config_.preset, name, texts, because, self._scaling.seen)

    def _html_repr(self) -> str:
        """scikit-learn's diagram for notebooks, below a card of what was found."""
        diagram: str = estimator_html_repr(self)
        if not self.__sklearn_is_fitted__():
            return diagram
        chosen = self.model_selection_.reason if self.model_selection_ else None
        return fitted_card(type(self).__name__, self._sizes(), self.history_, chosen) + diagram

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

    # ------------------------------------------------------------------ disk and hub

    def save(self, path: str | Path) -> None:
        """Save the fitted model as a directory of safetensors and JSON."""
        check_is_fitted(self)
        save_model(self, path)

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
        card = card_of(self, repo, run=run, license=license, picture=picture)
        return push_model(self, repo, card, picture=picture, private=private, token=token)

    @classmethod
    def from_pretrained(
        cls: type[_Model],
        repo_or_dir: str | Path,
        *,
        revision: str | None = None,
        token: str | None = None,
        encoder: Any = None,
        backbone: nn.Module | None = None,
    ) -> _Model:
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
            As in :func:`unbend.load`.
        """
        path = find_model(repo_or_dir, revision=revision, token=token)
        return load_model(cls, path, encoder=encoder, backbone=backbone)


def float_dtype(array: NDArray[Any]) -> np.dtype[Any]:
    """Features have the dtype of the samples where that is floating point."""
    return array.dtype if array.dtype.kind == "f" else np.dtype(np.float64)
