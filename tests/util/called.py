"""What users' modules in tests note about their calls; a run puts its modules away at its end."""

from __future__ import annotations

import threading

calls: list[tuple[int, int]] = []
"""Seed and agent of every call."""

let_go = threading.Event()
"""Ends the calls that wait for it."""
