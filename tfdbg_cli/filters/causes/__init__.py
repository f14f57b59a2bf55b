"""Why a tensor is bad, as far as op, inputs and dtype show it."""
