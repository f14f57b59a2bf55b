"""What is changed around a program while a run is recorded, and put back."""
