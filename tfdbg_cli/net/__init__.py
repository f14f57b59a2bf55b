"""What goes over a socket, whoever talks: addresses, messages, and the proof of a token."""
