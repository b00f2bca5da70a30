"""Claims on terminals: two rows for each, and names in few lines."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from fedsim.cli.claimtables import claims_table
from fedsim.cli.tables import print_table
from fedsim.results.claims import Judged
from fedsim.results.differences import Difference
from fedsim.results.figures import Claimed


def judged(better: str, worse: str, *, gain: float, p: float, metric: str | None = None) -> Judged:
    return Judged(
        Claimed(better=better, worse=worse, metric=metric),
        (0.75512, 0.0060),
        (0.759171, 0.00076),
        Difference(better, worse, "mean_best_observed", gain, 0.0026, p / 2, p, 10),
    )


CLAIMS = [
    judged("FTS-DE", "TS", gain=-0.0117, p=0.69),
    judged("q=0.35 z=1", "q=0.35 z=4", gain=-0.0303, p=0.00055),
    judged("q=0.35 z=1", "[TS]", gain=0.0101, p=float("nan"), metric="uploaded_bytes"),
]


def printed(width: int) -> list[str]:
    console = Console(file=StringIO(), width=width)
    with console.capture() as capture:
        print_table(console, claims_table(CLAIMS, "mean_best_observed", (20, 60)))
    return [line.rstrip() for line in capture.get().splitlines()]


def test_a_usual_terminal_has_two_rows_for_each_claim() -> None:
    lines = printed(80)
    assert max(map(len, lines)) <= 80
    text = [" ".join(line.split()) for line in lines]
    assert text == [
        "mean best observed, mean of rounds 20 to 60",
        "claim score gain, verdict p, corrected",
        "FTS-DE 0.7551 ± 0.0060 -0.0117 ± 0.0026 0.69",
        "better than TS 0.75917 ± 0.00076 does not hold",
        "q=0.35 z=1 0.7551 ± 0.0060 -0.0303 ± 0.0026 0.00055",
        "better than q=0.35 z=4 0.75917 ± 0.00076 does not hold:",
        "the opposite is shown",
        "q=0.35 z=1 0.7551 ± 0.0060 +0.0101 ± 0.0026",
        "better than [TS], in 0.75917 ± 0.00076 one seed:",
        "uploaded bytes no verdict",
    ]


@pytest.mark.parametrize("width", [20, 60, 80, 120])
def test_numbers_stay_whole(width: int) -> None:
    text = " ".join(" ".join(printed(width)).split())
    for number in ("0.7551 ± 0.0060", "0.75917 ± 0.00076"):
        assert text.count(number) == len(CLAIMS)
    assert "-0.0303 ± 0.0026" in text
