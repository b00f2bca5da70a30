"""Running the jobs of a run: checks first, where they run, and running them there."""
