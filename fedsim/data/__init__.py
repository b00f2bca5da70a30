"""Data sets: the catalogue, and how files are found and downloaded."""
