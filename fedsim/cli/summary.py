"""How a finished run is shown on a terminal: the closing table and its privacy losses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import mean
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fedsim.cli.consoles import print_text
from fedsim.cli.notes import rate
from fedsim.cli.tables import print_table
from fedsim.errors import listed
from fedsim.results.digits import significant
from fedsim.results.scores import known, mean_and_error, shown_scores, target_words

Summary = dict[str, Any]


def print_outcome(console: Console, summaries: Sequence[Summary]) -> None:
    """Print the table of outcomes, and a line for each seed that needs one.

    The table has one row per variant, with means and standard errors over seeds. A line tells of
    evaluations that failed, agents without values, and a lost journal.
    """
    print_table(console, _closing_table(summaries))
    for line in (
        *_targets(summaries),
        *_baselines(summaries),
        *_messages(summaries),
        *_traffic(summaries),
    ):
        print_text(console, line)
    for line in (
        *(_failures(s) for s in summaries if s.get("evaluations_failed")),
        *(_without_values(s) for s in summaries if _left_out(s)),
        *(_named(s, f"its times are unknown: {s['lost_times']}") for s in summaries if _untimed(s)),
        *(_named(s, s["lost"]) for s in summaries if s["status"] == "done" and s.get("lost")),
    ):
        print_text(console, line, "yellow")


def _closing_table(summaries: Sequence[Summary]) -> Table:
    variants = dict.fromkeys(str(s["variant"]) for s in summaries)
    scores = shown_scores(summaries)
    columns = _columns(summaries)
    title = "scores after the last round"
    table = Table(title=title, box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("variant", overflow="fold")
    table.add_column("seeds")
    for name in scores:
        table.add_column(name.replace("_", " "), justify="right")  # may wrap: the error goes below
    for name in (*columns, "eval/s", "CPU s"):
        table.add_column(name, justify="right")
    for variant in variants:
        own = [s for s in summaries if s["variant"] == variant]
        table.add_row(*_row(own, scores, columns))
    return table


def _columns(summaries: Sequence[Summary]) -> list[str]:
    """Return the names of the columns that only some runs have something in."""
    deltas = {_epsilon(s).get("delta") for s in summaries if _epsilon(s)}
    present = {
        "baseline": any("baseline" in s for s in summaries),
        "ε": bool(deltas),
        "at 1e-5": bool(deltas),
        "δ": len(deltas) > 1,
        "failed": any(s.get("evaluations_failed") for s in summaries),
    }
    return [name for name, is_present in present.items() if is_present]


def _row(seeds: Sequence[Summary], scores: Sequence[str], columns: Sequence[str]) -> list[str]:
    done = [s for s in seeds if s["status"] == "done"]
    count = str(len(seeds)) if len(done) == len(seeds) else f"{len(done)} of {len(seeds)}"
    row = [escape(seeds[0]["variant"]), count]
    row += [mean_and_error(known(done, name)) for name in scores]
    # A budget may stop one seed earlier than another: the largest loss is shown.
    epsilon = max(map(_epsilon, done), key=_size, default={})
    baselines = [s["baseline"]["mean"] for s in done if "baseline" in s]
    cells = {
        "baseline": significant(mean(baselines), 4) if baselines else "",
        "ε": _loss(epsilon),
        "at 1e-5": _loss(epsilon.get("delta_1e-5", {})),
        "δ": significant(epsilon.get("delta"), 2),
        "failed": str(sum(s.get("evaluations_failed", 0) for s in done)),
    }
    row += [cells[name] for name in columns]
    rates = known(done, "evaluations_per_second")
    row.append(rate(mean(rates)) if rates else "")
    if any(_untimed(s) for s in done):
        row.append("")
    else:
        seconds = sum(s["objective_seconds"] + s["other_seconds"] for s in done)
        row.append(significant(seconds, 2 if seconds < 10 else 4))
    return row


def _epsilon(summary: Summary) -> dict[str, Any]:
    """Return what a finished seed spent; empty if nothing, or if it is not finished."""
    return (summary.get("epsilon") or {}) if summary["status"] == "done" else {}


def _size(epsilon: dict[str, Any]) -> float:
    loss = epsilon.get("pld", 0.0)
    return math.inf if loss is None else float(loss)


def _loss(epsilon: dict[str, Any], accountant: str = "pld") -> str:
    """Return ε as text; empty if it is not known. Infinity, which JSON lacks, is None."""
    if accountant not in epsilon:
        return ""
    loss = epsilon[accountant]
    return "∞" if loss is None or math.isinf(loss) else significant(loss, 3)


def _targets(summaries: Sequence[Summary]) -> list[str]:
    """Return whose scores they are, for the variants that have targets."""
    variants: dict[str, list[str]] = {}
    for one in summaries:
        if one.get("targets") is not None:
            variants.setdefault(target_words(one["targets"]), []).append(str(one["variant"]))
    everybody = len(variants) == 1 and all(one.get("targets") is not None for one in summaries)
    if everybody:
        return [f"scores are those of {words}" for words in variants]
    return [
        f"scores of {listed(dict.fromkeys(own))} are those of {words}"
        for words, own in variants.items()
    ]


def _baselines(summaries: Sequence[Summary]) -> list[str]:
    """Return what the column ``baseline`` is, if there is one."""
    names = dict.fromkeys(s["baseline"]["name"] for s in summaries if "baseline" in s)
    return [f"baseline: {'; '.join(names)}; the mean over agents"] if names else []


def _messages(summaries: Sequence[Summary]) -> list[str]:
    """Return how many bytes an agent sent and received, on average over a variant's seeds."""
    from fedsim.crypto.traffic import size_words

    found: dict[str, list[str]] = {}
    for variant in dict.fromkeys(str(s["variant"]) for s in summaries):
        up, down = (
            [s[name] for s in summaries if s["variant"] == variant and s.get(name) is not None]
            for name in ("mean_uploaded_bytes", "mean_downloaded_bytes")
        )
        if up and down and any((*up, *down)):
            words = f"{size_words(mean(up))} and received {size_words(mean(down))}"
            found.setdefault(words, []).append(variant)
    return [
        f"messages of {listed(variants)}: an agent sent {words}"
        for words, variants in found.items()
    ]


def _traffic(summaries: Sequence[Summary]) -> list[str]:
    """Return how many bytes of sums over agents went where, on average over a variant's seeds."""
    lines = []
    for variant in dict.fromkeys(str(s["variant"]) for s in summaries):
        seeds = [s["traffic"] for s in summaries if s["variant"] == variant and s.get("traffic")]
        if not seeds:
            continue
        from fedsim.crypto.traffic import sentence

        kinds = dict.fromkeys(kind for traffic in seeds for kind in traffic)
        means = {
            kind: [mean(t.get(kind, (0, 0))[direction] for t in seeds) for direction in (0, 1)]
            for kind in kinds
        }
        if words := sentence(means):
            lines.append(f"{variant}, {'per seed' if len(seeds) > 1 else 'total'}: {words}")
    return lines


def _named(summary: Summary, sentence: str) -> str:
    return f"{summary['variant']}, seed {summary['seed']}: {sentence}"


def _failures(summary: Summary) -> str:
    first = f"; the first: {summary['first_failure']}" if summary["first_failure"] else ""
    count = summary["evaluations_failed"]
    return _named(summary, f"{count} evaluations failed and were skipped{first}")


def _left_out(summary: Summary) -> int:
    return _counted(summary) - int(summary.get("agents_with_values", 0))


def _counted(summary: Summary) -> int:
    """Return how many agents' results count: the targets, where a method has some."""
    targets = summary.get("targets")
    return int(summary.get("agents", 0)) if targets is None else len(targets)


def _untimed(summary: Summary) -> bool:
    """Return whether a finished seed's times are lost."""
    return summary["status"] == "done" and bool(summary.get("lost_times"))


def _without_values(summary: Summary) -> str:
    kind = "agents" if summary.get("targets") is None else "targets"
    some = f"{_left_out(summary)} of {_counted(summary)} {kind}, which have no value"
    return _named(summary, f"the means leave out {some}")


def privacy_lines(summaries: Sequence[Summary]) -> list[str]:
    """Return one sentence for each distinct privacy guarantee of a run's finished seeds.

    Each names the variants that it holds for, and the seeds if it holds for some of them only.
    """
    holds: dict[str, list[Summary]] = {}
    for one in summaries:
        if _epsilon(one):
            holds.setdefault(privacy_sentence(_epsilon(one)), []).append(one)
    if len(holds) == 1 and sum(map(len, holds.values())) == len(summaries):
        return [f"privacy: {sentence}" for sentence in holds]
    return [f"privacy of {_whose(own, summaries)}: {text}" for text, own in holds.items()]


def _whose(own: Sequence[Summary], summaries: Sequence[Summary]) -> str:
    """Return the variants of some of a run's seeds, with the seeds where not all are among them."""
    names = []
    for variant in dict.fromkeys(s["variant"] for s in own):
        seeds = [s["seed"] for s in own if s["variant"] == variant]
        if len(seeds) == sum(s["variant"] == variant for s in summaries):
            names.append(listed([variant]))
        else:
            names.append(f"{listed([variant])} (seed {', '.join(map(str, seeds))})")
    return ", ".join(names)


def _releases(count: int) -> str:
    return f"{count} release{'s' * (count != 1)}"


def privacy_sentence(epsilon: dict[str, Any]) -> str:
    """Return an ε with its meaning, as one sentence."""
    if "not_accounted" in epsilon:
        return (
            f"{_releases(epsilon['releases'])}, of a kind that no accountant supports "
            f"({epsilon['not_accounted']}): ε is unknown."
        )
    papers = ""
    if "moments" in epsilon:
        papers = f"; the paper's moments accountant says {_loss(epsilon, 'moments')}"
    return (
        f"ε = {_loss(epsilon)} at δ = {significant(epsilon['delta'], 2)} "
        f"(accountant pld{papers}) for {_releases(epsilon['releases'])}; neighbours: "
        f"{epsilon['neighbouring_relation']} of one agent; sampling: {epsilon['sampling']}."
    )
