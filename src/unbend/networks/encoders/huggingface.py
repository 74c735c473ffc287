"""Vision models from the Hugging Face hub or a local folder: DINOv2, CLIP, SigLIP, ViT, ResNet."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from unbend.disk.hub import is_offline, quiet_transformers
from unbend.disk.tensors import hash_tensors
from unbend.networks.encoders.encoder import Encoder
from unbend.networks.encoders.preprocess import IMAGENET_MEAN, IMAGENET_STD, Preprocessing

__all__ = ["POOLINGS", "is_model_folder", "load_huggingface", "read_preprocessing"]

POOLINGS = ("cls", "mean", "pooled")
_CLASS_TOKENS = ("cls_token", "class_embedding", "class_token")
_RESAMPLE = {0: "nearest", 2: "bilinear", 3: "bicubic"}  # Pillow's numbers


def is_model_folder(path: Path) -> bool:
    """Whether a directory holds a model as ``save_pretrained`` writes it."""
    return (path / "config.json").is_file() and not (path / "encoder.json").exists()


def load_huggingface(
    name: str, *, resolution: int | None = None, pooling: str | None = None, **options: Any
) -> Encoder:
    """Load a vision model by its name on the hub or from a folder; reads only safetensors.

    ``pooling`` is ``"cls"`` (the class token), ``"mean"`` (over the patches or the map) or
    ``"pooled"`` (the model's own summary: CLIP's projected features, SigLIP's attention pool).
    None uses ``"pooled"`` for CLIP, SigLIP and convolutional models, ``"cls"`` where there is a
    class token, and ``"mean"`` otherwise.
    """
    if pooling is not None and pooling not in POOLINGS:
        raise ValueError(
            f"`pooling` of encoder {name!r} must be one of {', '.join(POOLINGS)}, got {pooling!r}"
        )
    where = str(Path(name).expanduser()) if Path(name).expanduser().is_dir() else name
    model, missing = _load_model(where, name)
    preprocess = read_preprocessing(_preprocessor_config(where, name))
    trained_at = preprocess.size
    if resolution is not None:
        preprocess = replace(preprocess, size=(resolution, resolution))
    interpolate = preprocess.size != trained_at
    tower = _Tower(model, pooling, interpolate=interpolate)
    _check_missing(name, missing, tower.pooling)
    tensors = model.state_dict()
    identity = (type(model).__name__, tower.pooling, str(interpolate), preprocess.to_json())
    return Encoder(
        f"hf:{name}",
        tower,
        preprocess,
        hash_tensors(tensors, *identity),
        pooling=tower.pooling,
        **options,
    )


class _Tower(nn.Module):
    """The image tower of a model, with one vector per image."""

    def __init__(self, model: nn.Module, pooling: str | None, *, interpolate: bool) -> None:
        super().__init__()
        self.model = model
        self.projects = hasattr(model, "get_image_features")  # CLIP and SigLIP also read text
        vision: Any = getattr(model, "vision_model", model)
        self.vision: nn.Module = vision
        names = [name.rsplit(".", 1)[-1] for name, _ in vision.named_parameters()]
        self.has_class_token = any(n in _CLASS_TOKENS for n in names)
        registers = [p for n, p in vision.named_parameters() if n.endswith("register_tokens")]
        self.n_special = int(self.has_class_token) + sum(p.shape[-2] for p in registers)
        accepted = inspect.signature(vision.forward).parameters
        self.extra: dict[str, Any] = {}
        if interpolate and "interpolate_pos_encoding" in accepted:
            self.extra["interpolate_pos_encoding"] = True
        self.pooling = pooling or self._usual_pooling()
        if self.pooling == "cls" and not self.has_class_token:
            raise ValueError(
                f"pooling='cls' needs a class token, {type(model).__name__} has none; "
                "take 'mean' or 'pooled'"
            )

    def _usual_pooling(self) -> str:
        if self.projects or not any("position" in n for n, _ in self.vision.named_parameters()):
            return "pooled"
        return "cls" if self.has_class_token else "mean"

    def forward(self, x: Tensor) -> Tensor:
        if self.pooling == "pooled" and self.projects:
            out: Any = self.model.get_image_features(pixel_values=x, **self.extra)  # type: ignore[operator]
            pooled = out if isinstance(out, Tensor) else out.pooler_output
            return pooled.flatten(1)
        out = self.vision(pixel_values=x, **self.extra)
        if self.pooling == "pooled":
            if getattr(out, "pooler_output", None) is None:
                raise ValueError(
                    f"{type(self.model).__name__} has no summary of its own; "
                    "take pooling='cls' or 'mean'"
                )
            summary: Tensor = out.pooler_output
            return summary.flatten(1)
        last: Tensor = out.last_hidden_state
        if last.ndim == 4:  # a convolutional map
            return last.mean((2, 3))
        return last[:, 0] if self.pooling == "cls" else last[:, self.n_special :].mean(1)


# -------------------------------------------------------------------- files


def read_preprocessing(config: Mapping[str, Any]) -> Preprocessing:
    """Translate ``preprocessor_config.json``; missing entries have the library's defaults."""
    size = _sides(config.get("size", 224))
    crop: float | None
    if config.get("do_center_crop", "crop_size" in config):
        window = _sides(config.get("crop_size", config.get("size", 224)))
        target = (window["height"], window["width"])
        crop = min(1.0, target[0] / size.get("shortest_edge", size.get("height", target[0])))
    elif "shortest_edge" in size:
        target, crop = (size["shortest_edge"],) * 2, float(config.get("crop_pct") or 1.0)
    else:
        target, crop = (size["height"], size["width"]), None
    normalize = config.get("do_normalize", True)
    mean = tuple(config.get("image_mean", IMAGENET_MEAN)) if normalize else (0.0,) * 3
    std = tuple(config.get("image_std", IMAGENET_STD)) if normalize else (1.0,) * 3
    factor = 255 * float(config.get("rescale_factor", 1 / 255)) if _rescales(config) else 255.0
    mean, std = tuple(m / factor for m in mean), tuple(s / factor for s in std)
    return Preprocessing(
        target if config.get("do_resize", True) or "crop_size" in config else None,
        tuple(round(m, 9) for m in mean),
        tuple(round(s, 9) for s in std),
        _RESAMPLE.get(int(config.get("resample", 3)), "bicubic"),
        crop,
    )


def _rescales(config: Mapping[str, Any]) -> bool:
    return bool(config.get("do_rescale", True))


def _sides(size: Any) -> dict[str, int]:
    """``{"height", "width"}`` or ``{"shortest_edge"}``, from any spelling in use."""
    if isinstance(size, int):
        return {"shortest_edge": size, "height": size, "width": size}
    if isinstance(size, (list, tuple)) and len(size) == 2:
        return {"height": int(size[0]), "width": int(size[1])}
    if isinstance(size, Mapping) and "shortest_edge" in size:
        side = int(size["shortest_edge"])
        return {"shortest_edge": side, "height": side, "width": side}
    if isinstance(size, Mapping) and {"height", "width"} <= set(size):
        return {"height": int(size["height"]), "width": int(size["width"])}
    raise ValueError(f"the size {size!r} in preprocessor_config.json is not understood")


def _preprocessor_config(where: str, name: str) -> dict[str, Any]:
    from transformers.utils.hub import cached_file

    try:
        path = cached_file(where, "preprocessor_config.json", local_files_only=_is_local(where))
        config = json.loads(Path(str(path)).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise OSError(
            f"encoder {name!r} has no readable preprocessor_config.json, which says how images "
            "are prepared for it; add the file to its folder"
        ) from error
    return dict(config)


def _load_model(where: str, name: str) -> tuple[Any, list[str]]:
    """The model in float32 and the names of weights that were not in its file."""
    try:
        from transformers import AutoModel
    except ImportError as error:
        raise ImportError(f"encoder 'hf:{name}' needs pip install 'unbend[hf]'") from error
    _check_folder(where, name)
    with quiet_transformers(), torch.random.fork_rng(devices=[]):
        try:
            model, info = AutoModel.from_pretrained(
                where,
                use_safetensors=True,
                trust_remote_code=False,
                local_files_only=_is_local(where),
                output_loading_info=True,
                dtype=torch.float32,
            )
        except (OSError, ValueError) as error:
            raise OSError(_not_found(name, error)) from error
    return model.eval(), sorted(info["missing_keys"])


def _is_local(where: str) -> bool:
    """Whether only files on this machine are read; without a network, retries take a minute."""
    return Path(where).is_dir() or is_offline()


def _check_folder(where: str, name: str) -> None:
    folder = Path(where)
    if not folder.is_dir():
        return
    if not (folder / "config.json").is_file():
        raise OSError(f"{name!r} is not a model folder: config.json is missing")
    if not list(folder.glob("*.safetensors")):
        raise OSError(
            f"{name!r} holds no .safetensors weights; pickled weights can run code and are not "
            "read: convert them with save_pretrained(..., safe_serialization=True)"
        )


def _not_found(name: str, error: BaseException) -> str:
    first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return (
        f"encoder 'hf:{name}' could not be loaded ({first}); check the name and the network, or "
        "give a local folder with config.json, preprocessor_config.json and model.safetensors"
    )


def _check_missing(name: str, missing: list[str], pooling: str) -> None:
    """Raise if a weight is missing from the file, unless only an unused pooler needs it."""
    bad = [key for key in missing if pooling == "pooled" or ".pooler." not in f".{key}"]
    if bad:
        raise ValueError(
            f"encoder 'hf:{name}' lacks {len(bad)} weights ({', '.join(bad[:5])}"
            f"{', ...' if len(bad) > 5 else ''}); they would be random"
            + ("; take pooling='cls' or 'mean'" if all("pooler" in key for key in bad) else "")
        )
