"""How a run is shown in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from fedsim.errors import RunFolderError
from fedsim.results.scores import known, mean_and_error, shown_scores
from fedsim.results.seeds import SeedRun, doubts_of


def run_html(folder: Path, runs: Sequence[SeedRun]) -> str:
    """Return a table with one row per variant: how many seeds are done, and their scores.

    Below it stands what the scores leave in doubt.
    """
    summaries = [_summary(run) for run in runs]
    scores = shown_scores(summaries)
    head = ["variant", "seeds", *(name.replace("_", " ") for name in scores)]
    rows = [_row(head, "th")]
    for variant in dict.fromkeys(str(s["variant"]) for s in summaries):
        own = [s for s in summaries if s["variant"] == variant]
        states = dict.fromkeys(s["status"] for s in own)
        told = ", ".join(f"{sum(s['status'] == one for s in own)} {one}" for one in states)
        rows.append(_row([variant, told, *(mean_and_error(known(own, n)) for n in scores)], "td"))
    doubts = [f"<p>warning: {escape(text)}</p>" for text in doubts_of({r.name: r for r in runs})]
    title = f"<p>run <code>{escape(str(folder))}</code></p>"
    return f"{title}<table>{''.join(rows)}</table>{''.join(doubts)}"


def _summary(run: SeedRun) -> dict[str, Any]:
    try:
        return {**run.summary(), "status": run.state}
    except RunFolderError:
        return {"variant": run.variant, "status": "damaged"}


def _row(cells: Sequence[str], kind: str) -> str:
    return f"<tr>{''.join(f'<{kind}>{escape(cell)}</{kind}>' for cell in cells)}</tr>"
