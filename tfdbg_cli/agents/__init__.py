"""The server for coding agents: a UI over attached programs, by the Model Context Protocol."""
