"""Keys, the mouse and the prompt: what a person asks of the screen."""
