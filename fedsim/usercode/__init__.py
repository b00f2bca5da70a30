"""The user's own code: what a run reads of it, how processes import it, and calls into it."""
