"""Search spaces: parameters, where their values lie on the unit cube, grids and sub-regions."""

from fedsim.space.cells import Array
from fedsim.space.design import corner_design, uniform_design
from fedsim.space.parameters import Choice, Parameter, Value
from fedsim.space.space import Box, Space

__all__ = [
    "Array",
    "Box",
    "Choice",
    "Parameter",
    "Space",
    "Value",
    "corner_design",
    "uniform_design",
]
