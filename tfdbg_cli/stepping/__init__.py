"""Runs that go on only as far as they are asked to: what every engine's stepper promises."""
