"""The estimator around trained heads: input, selection of a head, prediction, saving."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from unbend.baselines.heads.consensus import align_heads, mix_heads
from unbend.baselines.heads.session import HeadModel, Session
from unbend.baselines.heads.stacked import HeadSpec, HeadStack
from unbend.baselines.heads.views import ImageViews, Trunk, VectorViews
from unbend.baselines.rules import check_count, check_rules
from unbend.config import NetworkConfig
from unbend.devices import pick_device
from unbend.labels.assign import canonical
from unbend.networks import build_network
from unbend.networks.encoders.unbend_checkpoint import read_saved_encoder
from unbend.parameters import seed_of, unchanged_on_error
from unbend.pretrain import load_backbone
from unbend.progress import console_progress, silent
from unbend.runs.model import read_model, write_model
from unbend.samples import Scaling, check_samples, prepare

__all__ = ["HeadPeer", "LinearHeads", "load"]

Self = TypeVar("Self", bound="HeadPeer")


@dataclass(eq=False, repr=False, kw_only=True)
class HeadPeer(ClusterMixin, BaseEstimator):
    """Base of the methods that train cluster heads; a subclass implements ``_spec`` and ``_learn``.

    Samples are centred and divided by a single number, so that coordinates have a standard
    deviation of about one and ratios of distances stay the same.
    """

    n_clusters: int = field(default=8, kw_only=False)
    device: str = "auto"
    random_state: Any = None
    verbose: int = 0

    # Fitted arrays of a method that are saved beside the labels.
    _saved: ClassVar[tuple[str, ...]] = ()

    n_features_in_: int = field(init=False)
    labels_: NDArray[np.int64] = field(init=False)

    # ------------------------------------------------------------------ fit

    def fit(self: Self, X: Any, y: Any = None) -> Self:
        """Cluster X.

        Parameters
        ----------
        X : array-like or Tensor
            Embeddings (n, d); for methods with a ``backbone`` also images (n, h, w) or
            (n, c, h, w).
        y : None
            Ignored, present for scikit-learn.
        """
        with unchanged_on_error(self):
            self._fit(X)
        return self

    def _fit(self, X: Any) -> None:
        check_rules(self)
        array = check_samples(self, X)
        check_count(self, len(array))
        samples, self._scaling = prepare(array)
        self._check_kind()
        generator = torch.Generator().manual_seed(seed_of(self.random_state))
        with console_progress() if self.verbose else nullcontext(silent) as progress:
            device = pick_device(self.device)
            trunk = self._trunk(samples, generator).to(device)
            heads = HeadStack(self._spec(trunk.out_features), generator).to(device)
            kind = ImageViews if self._scaling.is_image else VectorViews
            views = kind(trunk, samples.to(device), generator)
            session = Session(HeadModel(trunk, heads), views, generator, progress)
            self.head_losses_: NDArray[np.float64] = self._learn(session).double().numpy()
        self.history_, self.seconds_ = session.history, session.seconds
        self._model = session.model.cpu().eval()
        self._choose(samples)

    def _spec(self, n_in: int) -> HeadSpec:
        """Shape of the heads for features of width ``n_in``."""
        raise NotImplementedError

    def _learn(self, session: Session) -> Tensor:
        """Train, and return the loss of each head in the session, computed without labels."""
        raise NotImplementedError

    def _batch(self, usual: int) -> int:
        """The batch size that was given, or the usual one and at least ten samples per cluster."""
        given: int | None = getattr(self, "batch_size", None)
        return given or max(usual, 10 * self.n_clusters)

    def _check_kind(self) -> None:
        """Raise unless the method can start from this kind of samples."""
        name, given = type(self).__name__, getattr(self, "backbone", None)
        if self._scaling.is_image and given is None:
            more = ", or set `backbone` to a directory written by `unbend pretrain`"
            raise ValueError(
                f"{name} takes embeddings (n, d), got images of shape {self._scaling.shape}; "
                f"give it embeddings{more if hasattr(self, 'backbone') else ''}"
            )
        if not self._scaling.is_image and given is not None:
            raise ValueError(
                f"`backbone` of {name} is for images, got vectors of width "
                f"{self.n_features_in_}; leave it out"
            )

    def _trunk(self, samples: Tensor, generator: torch.Generator) -> Trunk:
        shape = tuple(samples.shape[1:])
        if not self._scaling.is_image:
            trunk = Trunk(shape)
            trunk.mean = samples.mean(0)
            return trunk
        path = self.backbone
        network = build_network(shape, read_saved_encoder(path).config, generator.initial_seed())
        load_backbone(network, path)
        trunk = Trunk(shape, network.config)
        trunk.backbone, trunk.mean, trunk.std = network.backbone, network.mean, network.std
        return trunk

    def _choose(self, samples: Tensor) -> None:
        """Choose the head with the lowest loss, or the consensus; number clusters by size."""
        P = self._heads(samples)
        self.best_head_ = int(self.head_losses_.argmin())
        if getattr(self, "consensus", False):
            self._columns = align_heads(P, self.best_head_)
            self._used = list(range(len(P)))
        else:
            self._columns = torch.arange(P.shape[2])[None]
            self._used = [self.best_head_]
        labels = mix_heads(P[self._used], self._columns).argmax(1).numpy()
        order = torch.from_numpy(canonical(labels, P.shape[2]).argsort())
        self._columns = self._columns[:, order]
        self.labels_ = mix_heads(P[self._used], self._columns).argmax(1).numpy()

    # ------------------------------------------------------------------ new samples

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Cluster of each sample: the arg max of :meth:`predict_proba`."""
        labels: NDArray[np.int64] = self.predict_proba(X).argmax(1)
        return labels

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probability of each cluster by the chosen head or the consensus, shape (m, k)."""
        check_is_fitted(self)
        P = self._heads(self._scaling.apply(check_samples(self, X, self._scaling)))
        probabilities: NDArray[np.float64] = mix_heads(P[self._used], self._columns).numpy()
        return probabilities

    @torch.inference_mode()
    def _heads(self, samples: Tensor) -> Tensor:
        """Probabilities (H, m, k) in float64.

        Vectors pass the heads in float64, which costs little and makes the result for a sample
        independent of the other samples in its batch.
        """
        model = self._model
        if not self._scaling.is_image:
            model, samples = copy.deepcopy(model).double(), samples.double()
        parts = [model(x).double().softmax(-1) for x in torch.split(samples, 1024)]
        return torch.cat(parts, 1)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_model")

    # ------------------------------------------------------------------ disk

    def save(self, path: str | Path) -> None:
        """Save the fitted model as a directory of safetensors and JSON."""
        check_is_fitted(self)
        tensors, values = self._state()
        params = {k: v for k, v in self.get_params().items() if k != "random_state"}
        if params.get("backbone") is not None:
            params["backbone"] = str(params["backbone"])
        values |= {
            "method": type(self).__name__,
            "params": params,
            "labels": self.labels_.tolist(),
            "own": {name: getattr(self, name).tolist() for name in self._saved},
            "head_losses": self.head_losses_.tolist(),
            "history": self.history_,
            "n_features_in": self.n_features_in_,
            "feature_names_in": getattr(self, "feature_names_in_", np.array([])).tolist(),
        }
        write_model(path, tensors, values)

    def _state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors and plain values that prediction needs."""
        config = self._model.trunk.config
        values = {
            "scaling": self._scaling.to_dict(),
            "heads": asdict(self._model.heads.spec),
            "network": None if config is None else asdict(config),
            "used": self._used,
            "best_head": self.best_head_,
        }
        return {**self._model.state_dict(), "columns": self._columns}, values

    def _restore(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        """Restore what :meth:`_state` returned."""
        self._scaling = Scaling.from_dict(values["scaling"])
        network = values["network"]
        spec = {**values["heads"], "hidden": tuple(values["heads"]["hidden"])}
        with torch.device("meta"):  # sizes from an untrusted file must not allocate memory
            trunk = Trunk(self._scaling.shape, NetworkConfig(**network) if network else None)
            model = HeadModel(trunk, HeadStack(HeadSpec(**spec)))
        self._columns = tensors.pop("columns")
        self._used, self.best_head_ = list(values["used"]), int(values["best_head"])
        model.load_state_dict(tensors, assign=True)
        self._model = model.eval()


@dataclass(eq=False, repr=False, kw_only=True)
class LinearHeads(HeadPeer):
    """Base of SCAN and its relatives: linear heads on embeddings, or on a trained backbone."""

    n_heads: int = 10
    n_neighbors: int = 20
    balance: float = 5.0
    epochs: int = 50
    batch_size: int | None = None
    lr: float | None = None
    consensus: bool = False
    backbone: str | Path | None = None

    _image_batch: ClassVar[int] = 128

    def _spec(self, n_in: int) -> HeadSpec:
        return HeadSpec(self.n_heads, n_in, self.n_clusters)

    def _train(
        self,
        session: Session,
        compute: Callable[[Tensor, int], Tensor],
        before_epoch: Callable[[int], None] | None = None,
        extra: tuple[nn.Parameter, ...] = (),
    ) -> Tensor:
        """Train heads and backbone, and ``extra``; the mean loss of each head in the last epoch."""
        images = session.on_images
        session.model.train()
        return session.descend(
            type(self).__name__,
            compute,
            [*session.model.parameters(), *extra],
            lr=self.lr,
            weight_decay=1e-4 if images else 0.0,
            epochs=self.epochs,
            batch_size=self._batch(self._image_batch if images else 512),
            before_epoch=before_epoch,
        )


def load(path: str | Path) -> Any:
    """Load a peer saved by its ``save``. Nothing in the files is executed."""
    from unbend import baselines

    tensors, values = read_model(path)
    try:
        cls = getattr(baselines, values["method"])
        if not issubclass(cls, HeadPeer):
            raise ValueError(f"{values['method']!r} is not a method with heads")
        model: HeadPeer = cls(**values["params"])
        model._restore(tensors, values)
        model.labels_ = np.asarray(values["labels"], dtype=np.int64)
        model.head_losses_ = np.asarray(values["head_losses"], dtype=np.float64)
        model.history_, model.n_features_in_ = values["history"], values["n_features_in"]
        for name, kept in values.get("own", {}).items():
            if name in model._saved:
                setattr(model, name, np.asarray(kept))
        if values["feature_names_in"]:
            model.feature_names_in_ = np.asarray(values["feature_names_in"], dtype=object)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise ValueError(f"{str(path)!r} is not a peer of this version: {reason}") from error
    return model
