"""How a finished run is shown: the closing table and the privacy losses."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from fedsim.cli.main import run_command
from fedsim.cli.summary import print_outcome, privacy_lines
from tests.util.small import small, write

SUMMARY: dict[str, Any] = {
    "variant": "dp-fts-de",
    "seed": 0,
    "status": "done",
    "metric": "best_observed",
    "best_observed": 0.91,
    "mean_best_observed": 0.84,
    "evaluations": 100,
    "evaluations_per_second": 5.0,
    "epsilon": {"pld": 3.5, "delta_1e-5": {"pld": 11.25}},
    "objective_seconds": 1.0,
    "other_seconds": 2.0,
}


def table(*summaries: dict[str, Any], width: int = 80) -> str:
    console = Console(width=width, file=StringIO())
    with console.capture() as capture:
        print_outcome(console, summaries)
    return capture.get()


class TestClosingTable:
    def test_speed_is_the_mean_over_seeds(self) -> None:
        text = table(
            SUMMARY,
            SUMMARY | {"seed": 1, "mean_best_observed": 0.8, "evaluations_per_second": 10.0},
        )
        assert "eval/s" in text
        row = next(line for line in text.splitlines() if "dp-fts-de" in line)
        assert row.split()[-2:] == ["7.5", "6"]
        assert "failed" not in text

    def test_a_partly_finished_private_run_fits_a_terminal(self) -> None:
        scores = {"simple_regret": 0.123456, "mean_simple_regret": 0.23456}
        scores |= {"inference_regret": 0.123456, "mean_inference_regret": 0.34567}
        seeds = [
            SUMMARY
            | {"variant": variant, "seed": seed, "metric": "simple_regret"}
            | {name: value * (1 + seed / 7) for name, value in scores.items()}
            | {"epsilon": {"pld": 3.5, "delta": delta, "delta_1e-5": {"pld": 11.25}}}
            | {"evaluations_failed": 2, "first_failure": "", "evaluations_per_second": 1234.0}
            for seed in (0, 1)
            for variant, delta in (("dp-fts-de", 0.0029), ("dp-fts-de-2", 0.037))
        ]
        waiting = [{"variant": "dp-fts-de", "seed": n, "status": "interrupted"} for n in range(10)]
        lines = table(*seeds, *waiting).splitlines()
        assert max(len(line) for line in lines if "skipped" not in line) <= 80
        assert "2 of" in " ".join(lines)
        assert all(word in " ".join(lines) for word in ("seeds", "1e-5", "δ", "eval/s", "CPU"))

    def test_a_baseline_has_a_column_and_a_line(self) -> None:
        """The mean over seeds; another variant's scenario may have none."""
        name = "always [no]"
        seeds = [
            SUMMARY | {"seed": seed, "baseline": {"name": name, "mean": mean}}
            for seed, mean in ((0, 0.25), (1, 0.35))
        ]
        text = table(*seeds, SUMMARY | {"variant": "other"}, width=120)
        lines = text.splitlines()
        column = lines[1].index("baseline")
        cells = {line.split()[0]: line[column : column + len("baseline")].strip() for line in lines}
        assert (cells["dp-fts-de"], cells["other"]) == ("0.3", "")
        assert "baseline: always [no]; the mean over agents" in text
        assert "baseline" not in table(SUMMARY)

    def test_traffic_of_sums_is_told_by_variant(self) -> None:
        """The mean over seeds."""
        sums = [
            SUMMARY | {"seed": seed, "traffic": {"secure-sum-upload": [0, size]}}
            for seed, size in ((0, 1_000_000), (1, 3_000_000))
        ]
        text = table(*sums, SUMMARY | {"variant": "none", "traffic": {}}, width=120)
        assert "dp-fts-de, per seed: sums, not encrypted: 2 MB to the server" in text
        assert text.count("to the server") == 1
        assert "dp-fts-de, total: sums, not encrypted: 1 MB" in table(sums[0], width=120)

    def test_failures_have_a_column_and_a_line(self) -> None:
        first = "the objective raised ValueError (agent 3, round 1): [bad] luck"
        failing = {"seed": 1, "evaluations_failed": 2, "first_failure": first}
        text = table(SUMMARY, SUMMARY | failing)
        assert "failed" in text.splitlines()[1] + text.splitlines()[2]
        sentence = "dp-fts-de, seed 1: 2 evaluations failed and were skipped; the first: "
        assert sentence + first in " ".join(text.split())
        assert "…" not in text

    def test_a_run_in_which_nothing_was_observed(self) -> None:
        nothing = {
            "best_observed": None,
            "mean_best_observed": None,
            "evaluations_per_second": None,
        }
        assert table(SUMMARY | nothing).splitlines()[-1].split()[-1] == "3"

    def test_a_seed_whose_times_are_lost(self) -> None:
        times = ("evaluations_per_second", "objective_seconds", "other_seconds")
        lost = {**dict.fromkeys(times), "seed": 1, "lost_times": "timings.jsonl lacks some"}
        text = " ".join(table(SUMMARY, SUMMARY | lost).split())
        assert "dp-fts-de, seed 1: its times are unknown: timings.jsonl lacks some" in text
        whole, untimed = (
            next(one for one in map(str.split, text.splitlines()) if one[:1] == ["dp-fts-de"])
            for text in (table(SUMMARY), table(SUMMARY | lost))
        )
        assert whole == [*untimed, "5", "3"]  # evaluations and CPU seconds

    def test_a_run_of_an_earlier_version(self) -> None:
        earlier = {k: v for k, v in SUMMARY.items() if k != "evaluations_per_second"}
        assert "0.84" in table(earlier)

    def test_small_numbers_have_digits(self) -> None:
        regret = {"metric": "simple_regret", "mean_simple_regret": 1.23e-6}
        text = table(SUMMARY | regret | {"mean_inference_regret": 4.56e-6})
        assert "1.23e-6" in text
        assert "4.56e-6" in text
        assert " ".join(line.strip() for line in text.splitlines()[1:4]).count("regret") == 2

    def test_every_score_says_what_it_is(self) -> None:
        text = " ".join(table(SUMMARY | {"mean_best_noiseless": 0.77}, width=120).split())
        for name in ("mean best observed", "best observed", "mean best noiseless"):
            assert name in text

    def test_errors_have_two_digits(self) -> None:
        text = table(SUMMARY, SUMMARY | {"seed": 1, "mean_best_observed": 0.8})
        assert "0.820 ±0.020" in " ".join(text.split())

    def test_deltas_are_told_where_they_differ(self) -> None:
        one = SUMMARY | {"epsilon": epsilon(0.02, 0.0123)}
        other = SUMMARY | {"variant": "b", "epsilon": epsilon(2.63, 0.004)}
        assert "δ" in table(one, other)
        assert "0.012" in table(one, other)
        assert "δ" not in table(one, one | {"variant": "b"})

    def test_an_infinite_loss(self) -> None:
        infinite = {"pld": None, "moments": None, "delta_1e-5": {"pld": None}}
        one = SUMMARY | {"epsilon": epsilon(1.5, 0.01)}
        other = seed("dp-fts-de", 1, epsilon(1.5, 0.01) | infinite)
        assert table(one, other).count("∞") == 2
        assert "ε = ∞ at δ = 0.01" in privacy_lines([other])[0]

    def test_the_largest_loss_of_the_seeds_is_shown(self) -> None:
        one = SUMMARY | {"epsilon": epsilon(1.5, 0.01)}
        text = table(one, one | {"seed": 1, "epsilon": epsilon(3.25, 0.01)})
        assert "3.25" in text
        assert "1.5 " not in text


def epsilon(pld: float, delta: float, **changes: Any) -> dict[str, Any]:
    return {
        "pld": pld,
        "moments": 2 * pld,
        "delta": delta,
        "delta_1e-5": {"pld": 4 * pld},
        "releases": 4,
        "neighbouring_relation": "zero-out",
        "sampling": "Poisson",
    } | changes


def seed(variant: str, number: int, loss: dict[str, Any]) -> dict[str, Any]:
    return SUMMARY | {"variant": variant, "seed": number, "epsilon": loss}


class TestPrivacyLines:
    def test_one_line_for_a_run_with_one_guarantee(self) -> None:
        (line,) = privacy_lines([seed("a", k, epsilon(0.0199, 0.06)) for k in range(3)])
        assert line == (
            "privacy: ε = 0.0199 at δ = 0.06 (accountant pld; the paper's moments accountant says "
            "0.0398) for 4 releases; neighbours: zero-out of one agent; sampling: Poisson."
        )

    def test_each_guarantee_names_its_variants(self) -> None:
        low, high = epsilon(0.02, 0.06), epsilon(2.63, 0.06)
        own = [seed("z = 8", 0, low), seed("z = 0.5", 0, high), seed("[b]", 0, low)]
        first, second = privacy_lines([seed("alone", 0, {}), *own])
        assert first.startswith("privacy of z = 8, [b]: ε = 0.02 at")
        assert second.startswith("privacy of z = 0.5: ε = 2.63 at")

    def test_what_makes_a_guarantee_another(self) -> None:
        base = epsilon(2.0, 0.06)
        for change in ({"delta": 0.05}, {"sampling": "fixed size"}, {"releases": 3}):
            pair = [seed("a", 0, base), seed("b", 0, {**base, **change})]
            assert len(privacy_lines(pair)) == 2

    def test_a_variant_whose_seeds_differ_names_them(self) -> None:
        own = [seed("a", k, epsilon(1.0 + (k == 2), 0.06)) for k in range(3)]
        lines = privacy_lines(own)
        assert [line.partition(":")[0] for line in lines] == [
            "privacy of a (seed 0, 1)",
            "privacy of a (seed 2)",
        ]

    def test_what_no_accountant_knows(self) -> None:
        (line,) = privacy_lines([seed("a", 0, {"releases": 3, "not_accounted": "later"})])
        assert line == (
            "privacy: 3 releases, of a kind that no accountant supports (later): ε is unknown."
        )
        assert "later" not in table(seed("a", 0, {"releases": 3, "not_accounted": "later"}))

    def test_one_release_is_no_plural(self) -> None:
        (line,) = privacy_lines([seed("a", 0, {"releases": 1, "not_accounted": "later"})])
        assert line.startswith("privacy: 1 release, of a kind")

    def test_nothing_is_said_of_runs_without_releases(self) -> None:
        assert privacy_lines([seed("a", 0, {}), {"variant": "b", "seed": 0, "status": "x"}]) == []


def test_run_and_show_tell_both_losses(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    variants: dict[str, Any] = {
        f"z = {z}": {"method": {"dp": {"noise_multiplier": z}}} for z in (8.0, 0.5)
    }
    variants = {"alone": {"method": {"name": "ts"}}} | variants
    raw = small("dp-fts-de", variants=variants, privacy={"delta": 1e-5})
    for command in (["run", write(raw)], ["show", "runs/small-1"]):
        assert run_command(command) == 0
        lines = [x for x in capsys.readouterr().out.splitlines() if x.startswith("privacy of")]
        assert [line.partition(": ")[0] for line in lines] == [
            "privacy of z = 8.0",
            "privacy of z = 0.5",
        ]
        losses = [float(line.split("ε = ")[1].split()[0]) for line in lines]
        assert losses[0] < losses[1] / 10
