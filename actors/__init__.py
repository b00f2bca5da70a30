"""The engine: Ray actors, faults, resume. Import as ``fedsim.actors``."""

import os

# Ray tells the user's terminal, at length, of every worker that it lost. fedsim repairs them, or
# says what happened in its own words. Ray reads this once, when it is imported.
os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", "^A worker died or was killed")
