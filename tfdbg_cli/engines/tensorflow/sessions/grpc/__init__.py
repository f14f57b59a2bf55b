"""Debug streams over gRPC: what other processes send of their runs."""
