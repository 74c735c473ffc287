"""Write the ONNX graph of a fitted model, compare it with the model, and time it."""

from __future__ import annotations

import copy
import logging
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from unbend.deploy.graph import Pipeline
from unbend.disk import atomic_write
from unbend.encoding import restore_encoder
from unbend.estimator import MLC
from unbend.networks import Encoder
from unbend.networks.encoders.onnx import import_onnxruntime

if TYPE_CHECKING:
    from onnx import ModelProto

__all__ = ["OnnxExport", "export_onnx"]

_OPSET = 18
# Probabilities agree to 1e-5 on samples like those of fit. The comparison draws random samples, on
# which the rounding of an encoder in float32 can grow further.
_TOLERANCE = 1e-4
_OUTPUTS = ["probabilities", "label", "outlier_score"]
_LARGEST = 2 * 10**9  # bytes of one protobuf file
_TRIALS = (1, 7)  # samples per batch that are compared
_TIMED = 64  # samples per batch that is timed


@dataclass(frozen=True)
class OnnxExport:
    """The file, what it takes, how far it is from the model, and how fast it runs."""

    path: Path
    n_bytes: int
    input: tuple[int, ...]
    dtype: str
    n_clusters: int
    largest_difference: float
    samples_per_second: float

    def to_dict(self) -> dict[str, Any]:
        """Plain dict, ready for JSON."""
        return {
            "out": str(self.path),
            "n_bytes": self.n_bytes,
            "input": ["n", *self.input],
            "dtype": self.dtype,
            "n_clusters": self.n_clusters,
            "largest_difference": self.largest_difference,
            "samples_per_second": round(self.samples_per_second, 1),
        }

    def summary(self) -> str:
        """Two lines of text."""
        kind = "images" if len(self.input) == 3 else "vectors"
        shape = ", ".join(map(str, ("n", *self.input)))
        return (
            f"{self.path}: {self.n_bytes / 1e6:.1f} MB, {kind} ({shape}) {self.dtype} to "
            f"{self.n_clusters} probabilities, label and outlier score\n"
            f"{self.samples_per_second:.0f} {kind}/s with {torch.get_num_threads()} threads; at "
            f"most {self.largest_difference:.0e} from predict_proba and outlier_score"
        )


def export_onnx(
    model: MLC, path: str | Path, *, image_size: tuple[int, int] | None = None
) -> OnnxExport:
    """Write a fitted model as one ONNX graph: preprocessing, encoder, network and labels.

    The graph takes a batch ``samples`` of any length and returns ``probabilities`` (n, k),
    ``label`` (n,) and ``outlier_score`` (n,). It is compared with the model before it is written.

    Parameters
    ----------
    model : MLC
        A fitted or loaded model.
    path : path
        File to write, ``.onnx``.
    image_size : (int, int), optional
        With an encoder: height and width of the images that the graph takes; it resizes them as
        the encoder does. By default the size of the encoder's own images, in which
        ``unbend predict`` reads files.

    Examples
    --------
    >>> import tempfile, unbend, onnxruntime
    >>> X = np.repeat(9 * np.eye(3, 5), 40, 0) + np.random.default_rng(0).normal(size=(120, 5))
    >>> model = unbend.MLC(3, random_state=0, pretrain_epochs=2, epochs=1).fit(X)
    >>> file = Path(tempfile.mkdtemp(), "model.onnx")
    >>> export_onnx(model, file).input
    (5,)
    >>> p, label, _ = onnxruntime.InferenceSession(file).run(None, {"samples": X[:2]})
    >>> bool(np.abs(p - model.predict_proba(X[:2])).max() < 1e-5)
    True
    """
    check_is_fitted(model)
    path = Path(path)
    if path.suffix != ".onnx":
        raise ValueError(f"an ONNX file must end in .onnx, got {str(path)!r}; rename it")
    if model._reader.is_of_texts:
        raise ValueError("a model of texts cannot be an ONNX graph; export a model of vectors")
    if model.n_clusters_ != model._label_model.n_clusters:
        raise ValueError(
            "an ONNX graph holds the clusters of fit, and this model was updated with new ones; "
            "export it before `update`, or fit again"
        )
    _check_installed()
    encoder = _encoder_of(model)
    shape, dtype = _input_of(model, encoder, image_size)
    pipeline = Pipeline(model, encoder, shape[1:] if encoder is not None else None)  # type: ignore[arg-type]
    content = _annotate(_graph(pipeline.eval(), shape, dtype), model)
    if len(content) > _LARGEST:
        raise ValueError(
            f"the graph has {len(content) / 1e9:.1f} GB, an ONNX file holds at most 2; use a "
            "smaller encoder, or label_method='landmarks'"
        )
    difference, speed = _compare(content, model, encoder, shape, dtype)
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(path, content)
    return OnnxExport(path, len(content), shape, dtype, model.n_clusters_, difference, speed)


def _check_installed() -> None:
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise ImportError(f"ONNX export needs pip install 'unbend[onnx]' ({error})") from error


def _encoder_of(model: MLC) -> Encoder | None:
    """The model's encoder, on the CPU in 32 bits."""
    if model._reader.record is None:
        return None
    encoder = model._reader.encoder
    if encoder is None or encoder.device.type != "cpu" or encoder.precision != "32":
        return restore_encoder(model._reader.record, model.encoder, "cpu")
    return encoder


def _input_of(
    model: MLC, encoder: Encoder | None, image_size: tuple[int, int] | None
) -> tuple[tuple[int, ...], str]:
    """Shape of one sample, and the type of its numbers."""
    scaling = model._scaling
    if encoder is None:
        if image_size is not None:
            raise ValueError(
                f"`image_size` is for models with an encoder; this one takes {scaling.shape}"
            )
        wide = "uint8" if scaling.is_image and scaling.dtype == "uint8" else "float64"
        return scaling.shape, "float32" if scaling.dtype == "float32" else wide
    size = image_size or encoder.preprocess.size
    if size is None:
        raise ValueError(
            f"encoder {encoder.name!r} takes images of any size; say which with --image-size"
        )
    if min(size) < 4:
        raise ValueError(f"`image_size` must be at least 4 pixels, got {tuple(size)}")
    return (3, *size), "uint8"


def _samples(n: int, shape: tuple[int, ...], dtype: str, model: MLC) -> NDArray[Any]:
    """Random samples in the range of the model's."""
    rng = np.random.default_rng(n)
    if dtype == "uint8":
        return rng.integers(0, 256, (n, *shape), dtype=np.uint8)
    scaling = model._scaling
    unit = rng.random((n, *shape)) if scaling.is_image else rng.normal(size=(n, *shape))
    return (scaling.offset + scaling.scale * unit).astype(dtype)


def _graph(pipeline: Pipeline, shape: tuple[int, ...], dtype: str) -> ModelProto:
    x = torch.zeros(2, *shape, dtype=getattr(torch, dtype))
    with _quiet(), torch.inference_mode():
        program = torch.onnx.export(
            pipeline,
            (x,),
            dynamo=True,
            opset_version=_OPSET,
            input_names=["samples"],
            output_names=_OUTPUTS,
            dynamic_shapes=({0: torch.export.Dim("n", min=1)},),
            verbose=False,
        )
    assert program is not None
    return program.model_proto


def _annotate(graph: ModelProto, model: MLC) -> bytes:
    """The graph as bytes, with what a program needs to know to use it."""
    from unbend import __version__

    facts = {
        "unbend": __version__,
        "n_clusters": str(model.n_clusters_),
        "outlier_threshold": repr(float(model.outlier_threshold_)),
        "encoder": str((model._reader.record or {}).get("name", "")),
    }
    for key, value in facts.items():
        graph.metadata_props.add(key=key, value=value)
    graph.doc_string = "samples to cluster probabilities, label and outlier score"
    # The exporter records the files and lines of this machine with each node.
    for node in graph.graph.node:
        del node.metadata_props[:]
        node.doc_string = ""
    for value in (*graph.graph.value_info, *graph.graph.input, *graph.graph.output):
        del value.metadata_props[:]
    return bytes(graph.SerializeToString())


def _compare(
    content: bytes, model: MLC, encoder: Encoder | None, shape: tuple[int, ...], dtype: str
) -> tuple[float, float]:
    """Largest difference to the model, and samples per second; raise if it is too large."""
    session = _session(content)
    model = copy.copy(model)  # random images have no place in the cache
    model._reader, model.cache_dir = replace(model._reader, encoder=encoder), None
    worst = 0.0
    for n in _TRIALS:
        X = _samples(n, shape, dtype, model)
        p, label, score = session.run(_OUTPUTS, {"samples": X})
        wanted = model.assess(X)
        worst = max(worst, float(np.abs(p - wanted.probabilities).max()))
        worst = max(worst, float(np.abs(score - wanted.outlier_score).max()))
        if not (label == p.argmax(1)).all():
            raise RuntimeError("the labels of the ONNX graph are not its most probable clusters")
    if worst > _TOLERANCE:
        raise RuntimeError(
            f"the ONNX graph differs from the model by {worst:.1e}, more than {_TOLERANCE:.0e}; "
            "please report it with the output of unbend doctor"
        )
    X = _samples(_TIMED, shape, dtype, model)
    start = time.perf_counter()
    session.run(_OUTPUTS, {"samples": X})
    return worst, _TIMED / (time.perf_counter() - start)


def _session(content: bytes) -> Any:
    onnxruntime = import_onnxruntime()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


@contextmanager
def _quiet() -> Iterator[None]:
    """The exporter and what it uses warn about their own insides."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
