"""One module per algorithm: its agent program and its server program."""
