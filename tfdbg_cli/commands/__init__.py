"""Commands: a Dump in, a Document out. They know no terminal."""
