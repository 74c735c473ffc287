"""Run a frozen convolutional network in onnxruntime, the fastest way measured on a CPU.

The graph is written here, layer by layer. The exporters of torch change with every version and
need more packages, which is not worth it for the few layers of these networks.
"""

from __future__ import annotations

import operator
import os
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, fx, nn

if TYPE_CHECKING:
    from onnx import NodeProto, TensorProto

__all__ = ["OnnxNetwork", "import_onnxruntime", "onnx_installed", "to_onnx"]

# Read when onnxruntime is imported. Otherwise it reports to its makers and leaves an identifier of
# this machine in the user's cache.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

_OPSET, _IR = 17, 8  # supported by every onnxruntime since 1.14


def onnx_installed() -> bool:
    """Whether onnx and onnxruntime can be imported; False also if a library fails to load."""
    try:
        import onnx  # noqa: F401

        import_onnxruntime()
    except ImportError:
        return False
    return True


def import_onnxruntime() -> Any:
    """The library with its telemetry off, even if other code imported it before."""
    import onnxruntime

    onnxruntime.disable_telemetry_events()
    return onnxruntime


class OnnxNetwork:
    """The same function as ``module``, up to rounding, on float32 images of one size.

    It uses as many threads as torch has when it is called. The session is created by the first
    call, so copies, pickles and forked processes have their own.

    Parameters
    ----------
    module : nn.Module
        Made of layers that :func:`to_onnx` supports; its weights are copied.
    size : tuple of int
        Height and width of the images.
    """

    def __init__(self, module: nn.Module, size: tuple[int, int]) -> None:
        self.graph = to_onnx(module, size)
        self._session: Any = None
        self._threads = 0

    def __call__(self, x: Tensor) -> Tensor:
        pixels = x.detach().to("cpu", torch.float32).contiguous().numpy()
        return torch.from_numpy(self._ready().run(None, {"x": pixels})[0])

    def _ready(self) -> Any:
        threads = torch.get_num_threads()
        if self._session is None or self._threads != threads:
            onnxruntime = import_onnxruntime()
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = threads
            options.inter_op_num_threads = 1
            options.log_severity_level = 3
            # Otherwise waiting threads would spin on cores that preprocessing needs.
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
            self._session = onnxruntime.InferenceSession(
                self.graph, options, providers=["CPUExecutionProvider"]
            )
            self._threads = threads
        return self._session

    def __getstate__(self) -> dict[str, Any]:
        return {"graph": self.graph, "_session": None, "_threads": 0}


def to_onnx(module: nn.Module, size: tuple[int, int]) -> bytes:
    """ONNX graph of a network from images (n, 3, h, w), any n, to vectors (n, d).

    Supports convolutions, also those with a ``static_padding`` of their own, ReLU, ReLU6,
    identities, sums, and the mean over the image. Raises a ValueError for any other layer.
    """
    from onnx import TensorProto, helper

    tracer = _Tracer()
    writer = _Writer(dict(module.named_modules()))
    for node in tracer.trace(module).nodes:
        writer.add(node)
    graph = helper.make_graph(
        writer.nodes,
        "encoder",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, *size])],
        [helper.make_tensor_value_info(writer.result, TensorProto.FLOAT, ["n", None])],
        writer.weights,
    )
    opsets = [helper.make_opsetid("", _OPSET)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=_IR)
    return bytes(model.SerializeToString())


class _Tracer(fx.Tracer):
    """Treat convolutions as leaves, also subclasses that other packages define."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, nn.Conv2d) or super().is_leaf_module(m, module_qualified_name)


class _Writer:
    """Translates the nodes of a traced network into ONNX nodes."""

    def __init__(self, modules: dict[str, nn.Module]) -> None:
        self.modules = modules
        self.nodes: list[NodeProto] = []
        self.weights: list[TensorProto] = []
        self.names: dict[Any, str] = {}
        self.result = ""

    def add(self, node: fx.Node) -> None:
        inputs = [self.names[a] for a in node.args if isinstance(a, fx.Node)]
        layer = self.modules[str(node.target)] if node.op == "call_module" else None
        if node.op == "placeholder":
            self.names[node] = "x"
        elif node.op == "output" and len(inputs) == 1:
            self.result = inputs[0]
        elif isinstance(layer, nn.Identity):
            self.names[node] = inputs[0]
        elif isinstance(layer, nn.Conv2d):
            self._convolve(node, inputs, layer)
        elif isinstance(layer, nn.ReLU6):
            bounds = [self._weight(f"{node.name}.{v}", torch.tensor(float(v))) for v in (0, 6)]
            self._node("Clip", node, [*inputs, *bounds])
        elif isinstance(layer, nn.ReLU):
            self._node("Relu", node, inputs)
        elif node.target in (operator.add, operator.iadd, torch.add) and len(inputs) == 2:
            self._node("Add", node, inputs)
        elif node.target == "mean" and node.args[1:] == ((2, 3),) and not node.kwargs:
            self._node("GlobalAveragePool", node, inputs)
            self._node("Flatten", node, [self.names[node]], suffix=".flat", axis=1)
        else:
            what = node.target if layer is None else type(layer).__name__
            raise ValueError(f"no ONNX is known for {what!r} of the network; use engine='torch'")

    def _convolve(self, node: fx.Node, inputs: list[str], conv: nn.Conv2d) -> None:
        if isinstance(conv.padding, str) or conv.padding_mode != "zeros":
            raise ValueError(
                f"no ONNX is known for padding {conv.padding!r}, {conv.padding_mode!r}; "
                "use engine='torch'"
            )
        extra = getattr(conv, "static_padding", None)
        left, right, top, bottom = extra.padding if isinstance(extra, nn.ZeroPad2d) else (0,) * 4
        h, w = conv.padding
        tensors = [self._weight(f"{node.name}.weight", conv.weight)]
        if conv.bias is not None:
            tensors.append(self._weight(f"{node.name}.bias", conv.bias))
        self._node(
            "Conv",
            node,
            [*inputs, *tensors],
            kernel_shape=list(conv.kernel_size),
            strides=list(conv.stride),
            dilations=list(conv.dilation),
            group=conv.groups,
            pads=[h + top, w + left, h + bottom, w + right],
        )

    def _node(
        self, kind: str, node: fx.Node, inputs: list[str], suffix: str = "", **attributes: Any
    ) -> None:
        from onnx import helper

        name = node.name + suffix
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        self.names[node] = name

    def _weight(self, name: str, tensor: Tensor) -> str:
        from onnx import numpy_helper

        values = tensor.detach().to("cpu", torch.float32).contiguous().numpy()
        self.weights.append(numpy_helper.from_array(values, name))
        return name
