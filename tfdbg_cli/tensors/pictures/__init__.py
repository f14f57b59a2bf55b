"""Pictures of tensors: slices reduced to cells, scaled, coloured."""
