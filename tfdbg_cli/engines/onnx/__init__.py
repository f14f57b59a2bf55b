"""ONNX Runtime: inference models, node by node."""
