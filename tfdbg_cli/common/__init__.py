"""What every room may use: documents, errors, files, settings, streams. No framework, no terminal."""
