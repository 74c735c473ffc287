"""A fitted model as one ONNX graph that runs without unbend and without torch."""

from unbend.deploy.onnx import OnnxExport, export_onnx

__all__ = ["OnnxExport", "export_onnx"]
