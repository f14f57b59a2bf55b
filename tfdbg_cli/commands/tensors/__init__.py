"""Commands about tensors and values: lists, values, expressions."""
