"""What a run computes, how each tensor is kept, and their order."""
