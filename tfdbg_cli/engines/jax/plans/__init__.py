"""What a compiled function computes, op by op."""
