"""One run: its agents, its fleet and the loop over rounds."""
