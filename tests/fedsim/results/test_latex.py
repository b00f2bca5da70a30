"""Comparisons as LaTeX."""

from __future__ import annotations

import pytest

from fedsim.results.latex import escaped, formula, tabular


def test_texts_are_shown_as_they_are() -> None:
    assert escaped("a_b & 5 % of $x$ {#}") == r"a\_b \& 5 \% of \$x\$ \{\#\}"
    assert escaped("1 - 1/t^0.5 \\ ~") == (
        r"1 - 1/t\textasciicircum{}0.5 \textbackslash{} \textasciitilde{}"
    )


@pytest.mark.parametrize(
    ("number", "latex"),
    [
        ("", ""),
        ("-0.5", "$-0.5$"),
        ("0.0123 ± 0.0012", r"$0.0123 \pm 0.0012$"),
        ("(1.23 ± 0.12)e-7", r"$(1.23 \pm 0.12) \times 10^{-7}$"),
        ("1.05e8", r"$1.05 \times 10^{8}$"),
        ("inf", r"$\infty$"),
    ],
)
def test_numbers(number: str, latex: str) -> None:
    assert formula(number) == latex


def test_the_best_is_bold() -> None:
    assert formula("1.5", bold=True) == r"$\mathbf{1.5}$"


def test_a_table() -> None:
    assert tabular(["a", "b"], [[["x", "1"]], [["y", "2"]]]).splitlines() == [
        r"\begin{tabular}{lr}",
        r"\toprule",
        r"a & b \\",
        r"\midrule",
        r"x & 1 \\",
        r"\midrule",
        r"y & 2 \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]
