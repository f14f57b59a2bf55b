"""Programs without sessions: traced functions, ops that are executed eagerly, Keras."""
