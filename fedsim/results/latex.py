r"""Comparisons as LaTeX tables, which need the packages booktabs and amsmath (for ``\text``)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fedsim.results.differences import Comparison
from fedsim.results.digits import significant, with_error
from fedsim.results.problemtable import ProblemComparison

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
}
MARKS = {"win": "$+$", "tie": r"$\approx$", "loss": "$-$", "": ""}


def escaped(text: str) -> str:
    """Return a text as LaTeX shows it, letter by letter."""
    return "".join(_SPECIAL.get(letter, letter) for letter in text)


def formula(number: str, *, bold: bool = False) -> str:
    """Return a number as :mod:`fedsim.results.digits` writes it, in mathematics; empty stays so."""
    if not number:
        return ""
    power = re.sub(r"e(-?\d+)$", r" \\times 10^{\1}", number.replace("±", r"\pm"))
    power = power.replace("nan", r"\text{nan}").replace("inf", r"\infty")
    return f"$\\mathbf{{{power}}}$" if bold else f"${power}$"


def tabular(header: Sequence[str], groups: Sequence[Sequence[Sequence[str]]]) -> str:
    """Return a table of cells that are LaTeX already, with a rule between groups of rows."""
    lines = [f"\\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}", r"\toprule", _line(header)]
    for group in groups:
        lines += [r"\midrule", *map(_line, group)]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def comparison_latex(found: Comparison) -> str:
    """Return a comparison of variants as a table."""
    header = ["variant", "seeds", "score", f"better than {escaped(found.baseline)} by", "$p$"]
    rows = []
    for row in found.rows:
        cells = [
            escaped(row.variant),
            str(row.seeds),
            formula(with_error(row.score, row.score_error)),
        ]
        one = row.difference
        told = ("", "", "", "")
        if one is not None:
            gain = formula(with_error(one.gain, one.standard_error, "+"))
            told = (gain, _p(one.p_value), _p(one.p_corrected), one.verdict)
        rows.append([*cells, *told])
    return _comment(found.title) + tabular([*header, "$p$, corrected", "verdict"], [rows])


def problems_latex(found: ProblemComparison) -> str:
    """Return a comparison over problems as two tables: the problems, and the tests over them."""
    return f"{_comment(found.title)}{_problems(found)}\n\n{_overall(found)}"


def _problems(found: ProblemComparison) -> str:
    beside = found.beside
    values = beside.values if beside else {}
    header, rows = ["problem"], [[escaped(problem)] for problem in found.problems]
    marks, ranks = [r"$+$/$\approx$/$-$"], ["mean rank"]
    judged = {one.method: one for one in found.overall}
    for method in dict.fromkeys((*found.methods, *(beside.methods if beside else ()))):
        if method in judged:
            one = judged[method]
            header.append(escaped(method))
            marks.append(f"{one.wins}/{one.ties}/{one.losses}" if one.test else "")
            ranks.append(formula(_known(one.mean_rank)))
            for row, problem in zip(rows, found.problems, strict=True):
                row.append(_cell(found, problem, method))
        if beside and method in beside.methods:
            header.append(f"{escaped(method)}, published")
            marks.append("")
            ranks.append("")
            for row, problem in zip(rows, found.problems, strict=True):
                row.append(formula(significant(values.get((problem, method)), 6)))
    return tabular(header, [rows, [marks, ranks]])


def _cell(found: ProblemComparison, problem: str, method: str) -> str:
    one = found.cells.get((problem, method))
    if one is None:
        return ""
    number = formula(with_error(one.score, one.score_error), bold=one.rank == 1.0)
    return f"{number} {MARKS[one.duel.mark if one.duel else '']}".strip()


def _overall(found: ProblemComparison) -> str:
    header = [
        f"against {escaped(found.baseline)}",
        "$W$",
        "$p$",
        "$p$, corrected",
        "$(n^+ - n^-)/n$",
        "rank-biserial",
        "verdict",
    ]
    rows = [
        [
            escaped(one.method),
            formula(significant(one.test.statistic)),
            _p(one.test.p_value),
            _p(one.p_corrected),
            formula(_known(one.test.paper_effect_size)),
            formula(_known(one.test.rank_biserial)),
            one.verdict,
        ]
        for one in found.overall
        if one.test is not None
    ]
    return tabular(header, [rows])


def _p(value: float) -> str:
    return formula(_known(value, 2))


def _known(value: float, digits: int = 4) -> str:
    return "" if value != value else significant(value, digits)


def _comment(text: str) -> str:
    return f"% {text}\n"


def _line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"
