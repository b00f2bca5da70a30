"""Data sets: which there are, where they lie and where they come from."""
