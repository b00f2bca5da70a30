"""The privacy losses of a recorded run: in total, and over its rounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fedsim.privacy.accountants import (
    NEIGHBOURING_RELATIONS,
    SAMPLINGS,
    STRICT_DELTA,
    make_accountant,
    privacy_loss,
    sampling_of,
    unsupported,
)
from fedsim.privacy.ledger import Ledger
from fedsim.protocol import PrivacyEvent
from fedsim.record.entries import ReleaseEntry

MOST_ROUNDS = 64
"""At most so many rounds of a run have an ε: composing after each of thousands takes long."""

INFINITE = "ε is infinite: a release had no noise, or next to none"


def epsilons(events: Sequence[PrivacyEvent], delta: float) -> dict[str, Any]:
    """Return the total ε by accountant, with everything needed to interpret ε.

    ``moments`` is missing for samples of fixed size: it is not defined for them.

    Args:
        events: all charged releases; none gives an empty report.
        delta: δ in (0, 1); ε at 1e-5 is also reported.
    """
    if not events:
        return {}
    ledger = Ledger.from_events(events)
    pld, rdp, moments = (make_accountant(name) for name in ("pld", "rdp", "moments"))
    report: dict[str, Any] = {"delta": delta, "releases": len(events)}
    unknown = unsupported(ledger, pld)
    if unknown is not None:
        return {**report, "not_accounted": unknown.kind}
    how = sampling_of(ledger)
    report |= {"neighbouring_relation": NEIGHBOURING_RELATIONS[how], "sampling": SAMPLINGS[how]}
    for accountant in (pld, rdp, moments):
        if not unsupported(ledger, accountant):
            report[accountant.name] = privacy_loss(ledger, delta, accountant).epsilon
    report["pld_source"] = privacy_loss(ledger, delta, pld).source
    report["pld_exact_multipliers"] = privacy_loss(ledger, delta, pld, "exact").epsilon
    report["delta_1e-5"] = {
        accountant.name: privacy_loss(ledger, STRICT_DELTA, accountant).epsilon
        for accountant in (pld, rdp)
    }
    if math.isinf(report["pld"]):  # JSON has no infinity: there it is null
        report["infinite"] = INFINITE
    return report


def loss_columns(
    rounds: Sequence[int], releases: Sequence[ReleaseEntry], delta: float
) -> dict[str, list[float]]:
    """Return the privacy columns of a table of rounds, by name.

    ``epsilon_pld`` is the ε spent up to and with a round, ``delta`` its δ, and
    ``signal_to_noise`` is of the round's last release. ε is NaN in some rounds of long runs: it is
    there for at most :data:`MOST_ROUNDS` of them, equally spaced, the last among them.

    Args:
        rounds: ascending.
        releases: in the order of the journal; if none was charged, or an event is of a kind that
            cannot be accounted for, there are no columns.
        delta: δ in (0, 1).
    """
    charged = [(entry, entry.event) for entry in releases if entry.event is not None]
    accountant, ledger = make_accountant("pld"), Ledger()
    if not charged or unsupported(Ledger.from_events(event for _, event in charged), accountant):
        return {}
    shown = set(np.linspace(0, len(rounds) - 1, min(MOST_ROUNDS, len(rounds))).round().astype(int))
    epsilons, ratios, place = [], [], 0
    for row, t in enumerate(rounds):
        ratio = math.nan
        while place < len(charged) and charged[place][0].t <= t:  # also releases before round 0
            entry, event = charged[place]
            ledger = ledger.charge(event)
            ratio = entry.experimenter.get("signal_to_noise", math.nan)
            place += 1
        spent = privacy_loss(ledger, delta, accountant).epsilon if row in shown else math.nan
        epsilons.append(spent)
        ratios.append(ratio)
    return {
        "epsilon_pld": epsilons,
        "delta": [delta] * len(epsilons),
        "signal_to_noise": ratios,
    }
