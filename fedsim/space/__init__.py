"""Search spaces: parameters, where their values lie on the unit cube, grids and sub-regions."""

from fedsim.space.cells import Array
from fedsim.space.parameters import Choice, Parameter, Value
from fedsim.space.space import Box, Space, uniform_design

__all__ = [
    "Array",
    "Box",
    "Choice",
    "Parameter",
    "Space",
    "Value",
    "uniform_design",
]
