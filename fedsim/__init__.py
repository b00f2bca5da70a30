"""Federated Bayesian optimisation: methods, privacy and simulation, and the package's entry points.

``fedsim.run(config)`` runs a simulation and ``fedsim.load(folder)`` opens a run folder; both
return a :class:`fedsim.results.analysis.Run`. The engine is ``fedsim.actors``, the workloads are
``fedsim.scenarios``, plots are ``fedsim.dashboards``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedsim.results.analysis import Run as Run
    from fedsim.results.analysis import load as load
    from fedsim.runner import resume as resume
    from fedsim.runner import run as run

_LAZY = {
    "Run": "fedsim.results.analysis",
    "load": "fedsim.results.analysis",
    "resume": "fedsim.runner",
    "run": "fedsim.runner",
}

__all__ = ["Run", "load", "resume", "run"]


def __getattr__(name: str) -> Any:
    # Lazy, so that `import fedsim` stays cheap on workers that need only a part.
    if name in _LAZY:
        import importlib

        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'fedsim' has no attribute {name!r}")
