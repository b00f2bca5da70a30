"""Federated Bayesian optimisation: methods, privacy and simulation, and the package's entry points.

``fedsim.run(config)`` runs a simulation, ``fedsim.resume(folder)`` continues one, and
``fedsim.load(folder)`` opens a run folder; all return a :class:`fedsim.results.analysis.Run`.
``list_runs``, ``best``, ``plot``, ``plot_points``, ``compare`` and ``compare_problems`` show what
runs have found; ``evaluate`` calls one objective once. The engine is ``fedsim.actors``, the
workloads are ``fedsim.scenarios``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedsim.api import best as best
    from fedsim.api import evaluate as evaluate
    from fedsim.api import list_runs as list_runs
    from fedsim.api import load as load
    from fedsim.api import resume as resume
    from fedsim.api import run as run
    from fedsim.dashboards.plots import plot as plot
    from fedsim.dashboards.scatter import plot_points as plot_points
    from fedsim.results.analysis import Run as Run
    from fedsim.results.comparison import compare as compare
    from fedsim.results.problems import compare_problems as compare_problems

    __version__: str

_ELSEWHERE = {
    "Run": "fedsim.results.analysis",
    "compare": "fedsim.results.comparison",
    "compare_problems": "fedsim.results.problems",
    "plot": "fedsim.dashboards.plots",
    "plot_points": "fedsim.dashboards.scatter",
}

__all__ = [
    "Run",
    "__version__",
    "best",
    "compare",
    "compare_problems",
    "evaluate",
    "list_runs",
    "load",
    "plot",
    "plot_points",
    "resume",
    "run",
]


def __getattr__(name: str) -> Any:
    # Lazy, so that `import fedsim` stays cheap on workers that need only a part.
    if name == "__version__":
        from importlib import metadata

        return metadata.version("fedsim")
    if name in __all__:
        import importlib

        return getattr(importlib.import_module(_ELSEWHERE.get(name, "fedsim.api")), name)
    raise AttributeError(f"module 'fedsim' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
