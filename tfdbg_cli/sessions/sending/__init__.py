"""Where verdicts are sent besides the terminal: ``--send-to``."""
