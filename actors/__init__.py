"""The engine: Ray actors, faults, resume. Import as ``fedsim.actors``."""

import logging
import os

# Ray prints long messages about every worker that it lost. fedsim repairs them, or prints its own
# message. Ray reads this variable once, when it is imported.
os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", "^A worker died or was killed")
# In a notebook, importing Ray says that ipywidgets is missing; fedsim shows no widgets.
logging.getLogger("ray.widgets.util").setLevel(logging.WARNING)
