"""Tables on terminals of any width: labels fold, and numbers stay whole."""

from __future__ import annotations

from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from fedsim.cli.tables import print_table

LABELS = [
    f"noise_multiplier={z}, sampling_rate={q}, length_scale={s}"
    for z in (1.0, 2.0)
    for q in (0.25, 0.5)
    for s in (0.1, 0.2)
]
NUMBERS = ["0.088 ±0.062", "1.0703 ±0.0013", "does not beat"]


def printed(width: int, *, box: bool = True) -> list[str]:
    console = Console(file=StringIO(), width=width)
    table = Table(box=SIMPLE_HEAD if box else None, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("variant", overflow="fold")
    table.add_column("seeds", no_wrap=True)
    for name in ("mean simple regret", "best observed", "verdict"):
        table.add_column(name, justify="right")
    for label in LABELS:
        table.add_row(label, "2 of 16", *NUMBERS)
    with console.capture() as capture:
        print_table(console, table)
    return [line.rstrip() for line in capture.get().splitlines()]


@given(st.integers(10, 200), st.booleans())
def test_numbers_and_words_stay_whole(width: int, box: bool) -> None:
    lines = printed(width, box=box)
    text = " ".join(" ".join(lines).split())
    for words in ("2 of 16", *" ".join(NUMBERS).split()):
        assert text.count(words) >= len(LABELS)
    assert "…" not in text
    column = next(line.index("seeds") for line in lines if "seeds" in line)
    folded = "".join("".join(line[:column].split()) for line in lines)
    for label in LABELS:
        assert label.replace(" ", "") in folded


@pytest.mark.parametrize("width", [64, 80, 100])
def test_settings_are_not_broken_where_there_is_room(width: int) -> None:
    lines = printed(width)
    assert max(map(len, lines)) <= width
    for setting in ("noise_multiplier=1.0,", "sampling_rate=0.25,", "length_scale=0.2"):
        assert sum(setting in line for line in lines) == 4


def test_a_wide_terminal_has_one_line_for_each_variant() -> None:
    lines = printed(160)
    assert len(lines) == 2 + len(LABELS)
    assert [line.partition("  ")[0] for line in lines[2:]] == LABELS


def test_labels_fold_before_lines_get_too_long() -> None:
    assert max(map(len, printed(58))) <= 58
    assert max(map(len, printed(20))) == max(map(len, printed(10)))
