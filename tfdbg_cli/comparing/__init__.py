"""Two runs beside each other: which of their tensors belong together, and where they part."""
