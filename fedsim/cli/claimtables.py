"""A figure's claims, and what a run says about them, as a table that fits a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from fedsim.results.digits import significant, with_error
from fedsim.results.metrics import TIMES

if TYPE_CHECKING:  # takes long to import
    from fedsim.results.claims import Judged


def claims_table(judged: Sequence[Judged], metric: str, rounds: tuple[int, int]) -> Table:
    """Return a table of claims: two rows for each, so that 80 columns have room for the names.

    The first has the variant that is claimed to be better, its score and its gain, the second the
    other one, its score and the verdict.

    Args:
        judged: the claims.
        metric: what scores are of, unless a claim has another.
        rounds: the first and last round that scores are means over.
    """
    first, last = rounds
    when = f"mean of rounds {first} to {last}" if first < last else f"after round {last}"
    title = TIMES.get(metric) or f"{metric.replace('_', ' ')}, {when}"
    table = Table(title=title, box=None, pad_edge=False)
    table.add_column("claim", overflow="fold")
    table.add_column("score", no_wrap=True)
    table.add_column("gain, verdict", no_wrap=True)
    table.add_column("p, corrected", justify="right")
    for one in judged:
        relation = "as good as" if one.claimed.alike else "better than"
        by = one.claimed.metric
        which = "" if by is None else f", in {by.replace('_', ' ')}"
        gain = with_error(one.difference.gain, one.difference.standard_error, "+")
        p = one.difference.p_corrected
        told = "" if math.isnan(p) else significant(p, 2)
        verdict = escape(one.verdict.replace(": ", ":\n"))
        table.add_row(escape(one.claimed.better), with_error(*one.score), gain, told)
        other = escape(f"{relation} {one.claimed.worse}{which}")
        table.add_row(other, with_error(*one.other_score), verdict)
    return table
