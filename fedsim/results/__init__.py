"""What is read from run folders: tables, comparisons, the status of a run under way."""
