"""Stepping through the nodes of an ONNX model."""
