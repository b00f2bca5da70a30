"""Federated Bayesian optimisation: the science, and the door to everything else.

``fedsim.run(config)`` runs a simulation and ``fedsim.load(folder)`` opens a finished one; both
return a :class:`fedsim.analysis.Run`. The engine is ``fedsim.actors``, the workloads are
``fedsim.scenarios``, plots are ``fedsim.dashboards``.
"""

from __future__ import annotations
