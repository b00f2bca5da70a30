"""What sharing bought: variants beside the one whose agents go alone, in a sentence each."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fedsim.errors import RunFolderError
from fedsim.files import NOISE_CONTROL
from fedsim.results.analysis import Run
from fedsim.results.comparison import compare_variants
from fedsim.results.differences import Row
from fedsim.results.digits import significant, with_error
from fedsim.results.entrants import Entrant, entrants
from fedsim.results.naming import variants_of

ALONE = "ts"
"""The method whose agents share nothing, and search as those of the methods that share do."""

SHARING_NOTHING = (ALONE, "random-search")

MOST_SENTENCES = 4
"""With more variants than these, a table of them is easier to read (``fedsim compare``)."""


def gains_over_alone(run: Run) -> list[str]:
    """Return what each variant that shares has gained over agents alone, over all rounds.

    There is nothing to say if not exactly one variant is :data:`ALONE`, if no other has the same
    scenario, or if there are more than :data:`MOST_SENTENCES` others. Noise-only controls, and
    methods that share nothing either, are left out.
    """
    if len(variants_of(run)) < 2:
        return []
    found = entrants([run], None)[0]
    methods = {one.label: _method(one) for one in found}
    alone = [one for one in found if methods[one.label] == ALONE]
    if len(alone) != 1 or alone[0].scenario is None:
        return []
    shared = [
        one
        for one in found
        if methods[one.label] not in (*SHARING_NOTHING, None)
        and not one.label.endswith(NOISE_CONTROL)
        and (one.scenario, one.targets) == (alone[0].scenario, alone[0].targets)
    ]
    return _sentences(alone[0], shared) if 0 < len(shared) <= MOST_SENTENCES else []


def _method(one: Entrant) -> str | None:
    """Return the name of a variant's method; None if its settings are lost."""
    try:
        return str(one.seeds[0].configuration()["method"]["name"])
    except RunFolderError:
        return None


def _sentences(alone: Entrant, shared: Sequence[Entrant]) -> list[str]:
    comparison = compare_variants([alone, *shared], [], baseline=alone.label)
    rounds = "rounds {} to {}".format(*comparison.rounds)
    base, *rows = comparison.rows
    return [
        _sentence(row, base, rounds)
        for row in rows
        if row.metric == base.metric and row.difference is not None and row.difference.seeds
    ]


def _sentence(row: Row, base: Row, rounds: str) -> str:
    assert row.difference is not None
    gain = row.difference
    metric = row.metric.replace("_", " ")
    text = (
        f"{row.variant}: {metric} {significant(row.score, 3)}, mean of {rounds}; {base.variant}, "
        f"which shares nothing: {significant(base.score, 3)}"
    )
    if math.isnan(gain.standard_error):
        return f"{text} (one seed: no error bar)"
    better = "better" if gain.gain > 0.0 else "worse"
    error = with_error(abs(gain.gain), gain.standard_error)
    return f"{text}; {better} by {error}, p = {significant(gain.p_corrected, 2)}"
