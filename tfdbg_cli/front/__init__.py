"""The doors by which programs and people come in: they start everything and may use everything."""
