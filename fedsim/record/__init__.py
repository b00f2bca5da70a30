"""What a run leaves: its folder, its journal and everything beside it."""
