"""What a run leaves behind: its folder, its journal and the files next to it."""
