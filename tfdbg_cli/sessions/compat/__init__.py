"""What only users of the original know: watches by hand, the instruction loop, the node stepper."""
