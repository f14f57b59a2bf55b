"""The original's API: wrapper sessions, hooks and steppers, which ask a run director."""
