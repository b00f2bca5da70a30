"""``python -m fedsim`` is the command line."""

from __future__ import annotations

from fedsim.cli.main import main

if __name__ == "__main__":
    main()
