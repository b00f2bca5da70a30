"""Reading run folders: tables, comparisons, the status of unfinished runs."""
