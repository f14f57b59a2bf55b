"""What things are called: modules, parameters, ops, places in the user's code."""
