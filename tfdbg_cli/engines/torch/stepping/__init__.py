"""A PyTorch program that goes on op by op."""
