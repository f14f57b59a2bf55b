"""What all debugged sessions of a process share."""
