"""Parts that several methods share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedsim.errors import ConfigError
from fedsim.methods.common import InitialDesign
from fedsim.methods.dp_fts_de import DPFTSDE
from fedsim.methods.dp_prior import DPPrior
from fedsim.methods.fbo_fedgp import FBOFedGP
from fedsim.methods.fed_warp import FederatedWarp
from fedsim.methods.fedgp_tr import FBOFedGPTrustRegions
from fedsim.methods.random_search import RandomSearch
from fedsim.methods.thompson import ThompsonSampling
from fedsim.protocol import Context
from fedsim.rng import Keys
from fedsim.space import Array, Parameter, Space

PLANE = Space((Parameter("a", 0.0, 1.0), Parameter("b", 0.0, 1.0)))
METHODS = [
    RandomSearch,
    ThompsonSampling,
    DPFTSDE,
    DPPrior,
    FederatedWarp,
    FBOFedGP,
    FBOFedGPTrustRegions,
]


def design(method: Any, **settings: Any) -> Array:
    built = method(Context(PLANE, agents=4, rounds=5, seed=0), initial_points=9, **settings)
    return np.array([p.u for p in built.agent(1).propose(0, None, Keys(0, 1, 0))])


@pytest.mark.parametrize("method", METHODS)
def test_corners_replace_the_first_points_of_the_design(method: Any) -> None:
    plain, corners = design(method), design(method, initial_design="corners")
    np.testing.assert_array_equal(design(method, initial_design="uniform"), plain)
    np.testing.assert_array_equal(corners[4:], plain[4:])
    assert len({tuple(u) for u in corners.tolist()}) == 9
    if method is not DPFTSDE:
        assert np.isin(corners[:4], (0.0, 1.0)).all()


def test_distributed_exploration_has_the_corners_of_its_own_part() -> None:
    # Two parts: agent 1 has the upper half of the first parameter.
    U = design(DPFTSDE, initial_design="corners", subregions=2)
    assert U[:4].tolist() == [[0.5, 0.0], [0.5, 1.0], [1.0, 0.0], [1.0, 1.0]]
    whole = design(DPFTSDE, initial_design="corners", subregions=2, local_initial_design=False)
    assert np.isin(whole[:4], (0.0, 1.0)).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"count": 0}, "method.initial_points: expected 1 to 10,000, got 0"),
        ({"count": 10_001}, "method.initial_points"),
        ({"count": 3, "kind": "sobol"}, "method.initial_design: expected uniform or corners"),
    ],
)
def test_bad_designs_are_refused(settings: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        InitialDesign(**settings)
