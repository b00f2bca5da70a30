"""The one maximiser of acquisition functions: candidates first, then climbs from the best."""

from fedsim.acquisition.search import (
    Piece,
    best_apart,
    draw_candidates,
    maximize,
    owners,
    piecewise_values,
    whole_cube,
)

__all__ = [
    "Piece",
    "best_apart",
    "draw_candidates",
    "maximize",
    "owners",
    "piecewise_values",
    "whole_cube",
]
