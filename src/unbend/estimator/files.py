"""A fitted model as files: save and load it, upload it to the hub and find it there."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from unbend.config import Config, check_config
from unbend.encoding import check_record
from unbend.estimator.reading import Reader
from unbend.hub import download_model, model_card, upload_model
from unbend.hub.card import run_facts
from unbend.labels import LabelModel, Surroundings
from unbend.networks import GIVEN, Network, build_network
from unbend.parameters import check_parameters, hook_name
from unbend.runs import read_model, write_model
from unbend.samples import NeighborChoice, Scaling
from unbend.texts import restore_text_encoder

if TYPE_CHECKING:
    from unbend.estimator.fitted import FittedModel

    _Model = TypeVar("_Model", bound=FittedModel)

__all__ = ["card_of", "find_model", "load_model", "push_model", "save_model"]

_PICTURE = "map.png"  # name of the picture on the hub
_HOOKS = ("backbone", "views", "objective")  # parameters that may be code of the caller
# What invalid values in an untrusted file can raise.
_DAMAGE = (
    KeyError, IndexError, TypeError, ValueError, AttributeError, RuntimeError, OverflowError,
    MemoryError,
)  # fmt: skip


def save_model(model: FittedModel, path: str | Path) -> None:
    """Save a fitted model; see :meth:`unbend.MLC.save`."""
    from unbend import __version__

    text_tensors, text_values = model._reader.text_state or ({}, None)
    label_tensors, label_values = model._label_model.state()
    around, around_values = model._surroundings.state()
    parts: dict[str, dict[str, Tensor]] = {
        "network": model._network.state_dict(),
        "labels": label_tensors,
        "surroundings": around,
        "text": text_tensors,
    }
    tensors = {f"{part}.{k}": v for part, state in parts.items() for k, v in state.items()}
    tensors["update.waiting"] = model._waiting.contiguous()
    tensors["noise"] = torch.from_numpy(np.flatnonzero(model.labels_ < 0))
    params = {k: v for k, v in model.get_params().items() if k != "random_state"}
    values = {
        "unbend": __version__,
        "params": _plain(params),
        "config": model.config_.to_dict(),
        "scaling": model._scaling.to_dict(),
        "encoder": model._reader.record,
        "text": text_values,
        "reading": model._reading,
        "hooks": {name: hook_name(params[name]) for name in _HOOKS if callable(params[name])},
        "labels": label_values,
        "surroundings": around_values,
        "updates": model.updates_,
        "neighbors": model.neighbors_.to_dict(),
        "history": model.history_,
        "n_features_in": model.n_features_in_,
        "feature_names_in": getattr(model, "feature_names_in_", np.array([])).tolist(),
    }
    write_model(path, tensors, values)


def _plain(params: dict[str, Any]) -> dict[str, Any]:
    """Parameters as JSON: without code of the caller, and without a place to write to."""
    plain = dict(params)
    # A path or a name is kept; an encoder of another kind is found again by its record.
    for name in ("encoder", "pretrain", *_HOOKS):
        plain[name] = str(params[name]) if isinstance(params[name], (str, Path)) else None
    plain["callbacks"] = None
    plain["cache_dir"] = None if params["cache_dir"] is None else "auto"
    return plain


def load_model(
    kind: type[_Model], path: str | Path, *, encoder: Any = None, backbone: nn.Module | None = None
) -> _Model:
    """Load a model of a class from its directory or that of a run; see :func:`unbend.load`."""
    if not Path(path).exists():
        raise FileNotFoundError(
            f"no run or model {str(path)!r}; name what `unbend cluster` or MLC.save wrote"
        )
    run = None
    if (Path(path) / "model").is_dir() and not (Path(path) / "model.json").exists():
        run, path = Path(path), Path(path) / "model"
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
        model = _rebuild(kind(**values["params"]), tensors, values, backbone)
        model.encoder = model.encoder if encoder is None else encoder
        model._run = run
        return model
    except _DAMAGE as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise ValueError(f"{str(path)!r} is not a model of this version: {reason}") from error


def _rebuild(
    model: _Model, tensors: dict[str, Tensor], values: dict[str, Any], backbone: nn.Module | None
) -> _Model:
    """Give an estimator the state of a fitted one, checking all of it."""
    # An untrusted file must not choose where this machine writes.
    model.cache_dir = None if model.cache_dir is None else "auto"
    model.config_ = Config.from_dict(values["config"])
    model._scaling = Scaling.from_dict(values["scaling"])
    check_record(values.get("encoder"))
    check_parameters(model)
    check_config(model.config_)
    if backbone is not None:
        model.set_params(backbone=backbone)
    weights = _part(tensors, "network")
    model._network = _restore_network(model._scaling, model.config_, weights, backbone)
    model._reader = Reader(record=values.get("encoder"))
    text = _part(tensors, "text")
    if values.get("text") is not None:
        model._reader.text_state = text, values["text"]
        if text:  # checks that words and weights fit
            model._reader.text_encoder = restore_text_encoder(text, values["text"], None, "cpu")
    model._reading = values.get("reading")
    model.neighbors_ = NeighborChoice.from_dict(
        values.get("neighbors", {"metric": model.config_.views.metric, "scores": {}})
    )
    model.history_ = values["history"]
    model.n_features_in_ = values["n_features_in"]
    if values["feature_names_in"]:
        model.feature_names_in_ = np.asarray(values["feature_names_in"], dtype=object)
    labels = LabelModel.from_state(_part(tensors, "labels"), values["labels"])
    around = Surroundings.from_state(_part(tensors, "surroundings"), values["surroundings"])
    model._adopt(labels, around)
    model.labels_[tensors["noise"].numpy()] = -1
    _restore_updates(model, tensors["update.waiting"], list(values["updates"]))
    return model


def _part(tensors: dict[str, Tensor], name: str) -> dict[str, Tensor]:
    """The tensors of one part of the model, under their own names."""
    start = f"{name}."
    return {k.removeprefix(start): v for k, v in tensors.items() if k.startswith(start)}


def _restore_network(
    scaling: Scaling, config: Config, weights: dict[str, Tensor], backbone: nn.Module | None
) -> Network:
    # Sizes from an untrusted file must not allocate memory; the caller's module is used as it is.
    with torch.device("meta") if backbone is None else nullcontext():
        network = build_network(scaling.network_shape, config.network, 0, backbone)
    network = network.to(weights["mean"].dtype)
    network.mean, network.std = weights["mean"], weights["std"]
    network.load_state_dict(weights, assign=True)
    return network.eval()


def _restore_updates(model: FittedModel, waiting: Tensor, updates: list[dict[str, Any]]) -> None:
    """The samples that wait, and the clusters that updates have added."""
    references, groups = model._surroundings.references, model._surroundings.groups
    if waiting.shape[1:] != references.shape[1:]:
        raise ValueError("the waiting samples do not fit the references")
    added = torch.unique(groups[groups >= 0]).tolist()
    if added != [*range(model.n_clusters_, model.n_clusters_ + len(added))]:
        raise ValueError("the clusters of updates are not numbered after those of the fit")
    model._waiting, model.updates_ = waiting, updates
    model.n_clusters_ += len(added)


def card_of(
    model: FittedModel,
    repo: str,
    *,
    run: str | Path | None,
    license: str | None,
    picture: str | Path | None,
) -> str:
    """The card that describes a model on the hub."""
    facts = _facts(model) | ({} if run is None else run_facts(run))
    if picture is not None and Path(picture).suffix != ".png":
        raise ValueError(f"`picture` must be a .png file, got {str(picture)!r}")
    shown = None if picture is None else _PICTURE
    return model_card(facts, repo=repo, license=license, picture=shown)


def push_model(
    model: FittedModel,
    repo: str,
    card: str,
    *,
    picture: str | Path | None,
    private: bool | None,
    token: str | None,
) -> str:
    """Upload a fitted model with its card and picture; see :meth:`unbend.MLC.push_to_hub`."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "model"
        save_model(model, folder)
        if picture is not None:
            shutil.copyfile(picture, folder / _PICTURE)
        (folder / "README.md").write_text(card, encoding="utf-8")
        return upload_model(
            folder, repo, private=private, token=token, message="Upload a model of unbend"
        )


def _facts(model: FittedModel) -> dict[str, Any]:
    from unbend import __version__

    return {
        "n": len(model.labels_),
        "sizes": model._sizes(),
        "dim": model.config_.network.dim,
        "shape": model._scaling.shape,
        "encoder": (model._reader.record or {}).get("name"),
        "unbend": __version__,
    }


def find_model(repo_or_dir: str | Path, *, revision: str | None, token: str | None) -> Path:
    """The directory of a model; a repository on the hub is downloaded."""
    path = Path(repo_or_dir)
    if not path.is_dir():
        return download_model(str(repo_or_dir), revision=revision, token=token)
    if revision is not None:
        raise ValueError(f"`revision` is for the hub; {str(path)!r} is a directory")
    return path
