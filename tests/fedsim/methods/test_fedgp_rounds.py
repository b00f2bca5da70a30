"""What both kinds of FBO-FedGP share from round to round, and what absent clients leave hidden."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedsim
from fedsim.methods.fbo_fedgp import FBOFedGP
from fedsim.methods.fedgp_rounds import Carried, Constants, FitRounds
from fedsim.methods.fedgp_tr import FBOFedGPTrustRegions
from fedsim.methods.own_model import SurrogateSettings
from fedsim.protocol import Context
from fedsim.space import Array, Parameter, Space
from fedsim.surrogates.fit import LENGTH_SCALE_BOUNDS

SQUARE = Space((Parameter("a", 0.0, 1.0), Parameter("b", 0.0, 1.0)))
AGENTS, ROUNDS, SUPPORT = 4, 20, 6


def test_fits_are_due_at_multiples() -> None:
    assert [t for t in range(12) if FitRounds(5).include(t)] == [0, 5, 10]
    assert [t for t in range(12) if FitRounds(5, 4).include(t)] == [1, 6, 11]
    assert [t for t in range(12) if FitRounds(5, 7).include(t)] == [0, 3, 8]
    assert not any(FitRounds(0, 4).include(t) for t in range(12))


@given(every=st.integers(1, 12), start=st.integers(1, 30))
def test_fits_are_due_when_a_client_that_is_always_there_refits_its_own_model(
    every: int, start: int
) -> None:
    """So that runs without absence compute each fit once."""
    fitted = [(start + t) // every for t in range(40)]
    changed = [fitted[0] > 0, *(b > a for a, b in itertools.pairwise(fitted))]
    assert [FitRounds(every, start).include(t) for t in range(40)] == changed


@pytest.mark.parametrize("message", [None, {"sum": np.arange(3.0), "support": np.eye(2)}])
def test_what_is_carried_survives(message: dict[str, Array] | None) -> None:
    carried = Carried(Constants(np.array([0.1, 0.2]), np.array([3.0, 4.0])))
    carried.message = message
    other = Carried(Constants(np.zeros(2), np.ones(2)))
    other.message = {"sum": np.zeros(1)}
    other.restore({**carried.state(), "centre": np.ones(2)})
    np.testing.assert_array_equal(other.constants.logs, carried.constants.logs)
    np.testing.assert_array_equal(other.constants.units, carried.constants.units)
    assert (other.message is None) == (message is None)
    if message is not None:
        assert other.message is not None
        assert set(other.message) == set(message)
        for name, array in message.items():
            np.testing.assert_array_equal(other.message[name], array)


def sent(folder: Path, name: str, availability: float) -> list[tuple[int, int, float, Array]]:
    """Return round, client, number of fits and logarithms of every vector of a run."""
    settings: dict[str, Any] = {"encryption": "plain", "surrogate": {"fit_every": 3}}
    settings |= {"acquisition": {"candidates": 16, "near": 8, "starts": 1}}
    settings |= {"support": {"size": SUPPORT}} if name == "fbo-fedgp" else {"support_size": SUPPORT}
    config = {
        "scenario": {"name": "functions", "function": "levy", "dimension": 2, "agents": AGENTS},
        "method": {"name": name, **settings},
        "rounds": ROUNDS,
        "availability": availability,
        "backend": "serial",
        "transcript": True,
    }
    text = fedsim.run(config, out=folder / "run").runs[0].folder.transcript.read_text()
    context, surrogate = Context(SQUARE, AGENTS, ROUNDS, seed=0), SurrogateSettings(fit_every=3)
    plain = FBOFedGP(context, encryption="plain", surrogate=surrogate)
    regions = FBOFedGPTrustRegions(context, encryption="plain", surrogate=surrogate)
    bits = (plain if name == "fbo-fedgp" else regions)._scheme.fraction_bits

    def fit(vector: Array) -> tuple[float, Array]:
        if name == "fbo-fedgp":
            parts = plain._work.summaries.layout.unpack(vector, SUPPORT)
            return float(parts["fits"][0]), parts["logs"]
        total = regions._work.sums.read(vector, SUPPORT)
        return total.fits, total.logs

    return [
        (line["t"], agent, *fit(np.ldexp(np.array(payload["integers"], float), -bits)))
        for line in map(json.loads, text.splitlines())
        for agent, status, payload in line.get("replies", [])
        if status == "ok"
    ]


@pytest.mark.parametrize(
    ("name", "due"),
    [("fbo-fedgp", [0, 2, 5, 8, 11, 14, 17]), ("fbo-fedgp-tr", [0, 3, 6, 9, 12, 15, 18])],
)
@pytest.mark.parametrize("availability", [1.0, 0.6])
def test_nobody_sends_a_fit_twice(
    name: str, due: list[int], availability: float, tmp_path: Path
) -> None:
    """What does not change cancels in a difference of sums, and leaves one client's fit alone."""
    vectors = sent(tmp_path, name, availability)
    absent = AGENTS * ROUNDS - len(vectors)
    assert (absent > 10) == (availability < 1.0)
    known: set[tuple[int, float]] = set()
    for t, agent, fits, logs in vectors:
        assert fits == (t in due), f"client {agent} in round {t}"
        if not fits:
            np.testing.assert_array_equal(logs, np.zeros_like(logs))
            continue
        if np.log(LENGTH_SCALE_BOUNDS[0]) < logs[0] - 1e-6 < np.log(LENGTH_SCALE_BOUNDS[1]) - 2e-6:
            assert (agent, logs[0]) not in known, f"client {agent} in round {t}"
            known.add((agent, float(logs[0])))
    assert len(known) > 10
