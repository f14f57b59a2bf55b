"""Commands about source files."""
