"""User interfaces: they show Documents and ask for the next command. They know no dump."""
