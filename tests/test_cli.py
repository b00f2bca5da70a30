"""Every command, as scripts and people use it."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

import fedsim as api
from fedsim.cli.main import run_command
from fedsim.config.model import Config
from fedsim.config.ready import ready_names
from fedsim.config.registry import METHODS, SCENARIOS
from fedsim.yamltext import parse_yaml
from tests.util.mixed import MIXED
from tests.util.processes import COMMAND, loaded_by
from tests.util.small import UserModule, body, small, write

Command = Callable[..., tuple[str, str]]


@pytest.fixture
def fedsim(here: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs a command in an empty folder, checks its exit code, returns what it printed."""

    def call(*arguments: str, code: int = 0) -> tuple[str, str]:
        capsys.readouterr()
        found = run_command(arguments)
        out, err = capsys.readouterr()
        assert found == code, err
        return out, err

    return call


def last(out: str) -> Any:
    """Return the only line of stdout, which is JSON."""
    (line,) = out.splitlines()
    return json.loads(line)


SHAPE = {"folder", "picture", "status", "warnings", "runs"}
"""What `fedsim run --json` gives, of one seed as of several."""


class TestRun:
    def test_json_of_a_single_run(self, fedsim: Command) -> None:
        out, err = fedsim("run", write(small("dp-fts-de")), "--json")
        result = last(out)
        assert result.keys() == SHAPE
        assert result["folder"] == "runs/small-1"
        assert result["status"] == "done"
        assert result["warnings"] == []
        (one,) = result["runs"]
        assert one["simple_regret"] <= one["mean_simple_regret"]
        assert {"pld", "rdp", "moments", "delta", "neighbouring_relation", "sampling"} <= set(
            one["epsilon"]
        )
        assert one["objective_seconds"] >= 0
        assert one["other_seconds"] >= 0
        journal = Path("runs/small-1/seed-0/journal.jsonl").read_bytes()
        assert one["journal_sha256"] == hashlib.sha256(journal).hexdigest()
        assert one["seed"] == 0
        assert one["folder"] == "runs/small-1/seed-0"
        assert "plan" in err
        assert Path(result["picture"]).stat().st_size > 0

    def test_json_has_an_entry_per_variant_and_seed(self, fedsim: Command) -> None:
        variants = {"a": {}, "b": {"method": {"initial_points": 3}}}
        out, _ = fedsim("run", write(small(variants=variants)), "--json", "--seeds", "1-2")
        result = last(out)
        found = [(one["variant"], one["seed"], one["status"]) for one in result["runs"]]
        assert found == [(v, s, "done") for v in "ab" for s in (1, 2)]
        assert result.keys() == SHAPE
        journals = [body(Path(one["folder"]) / "journal.jsonl") for one in result["runs"]]
        assert len(set(journals)) == 4

    def test_without_a_picture_there_are_results(
        self, fedsim: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fedsim("run", write(small()), "--json")

        def full(figure: Figure, target: Path, **options: object) -> None:
            target.write_bytes(b"half of it")
            raise OSError(errno.EFBIG, "File too large", str(target))

        monkeypatch.setattr(Figure, "savefig", full)
        out, err = fedsim("run", "run.yaml", "--json")
        result = last(out)
        assert result.keys() == SHAPE
        assert (result["folder"], result["picture"]) == ("runs/small-2", None)
        assert result["status"] == result["runs"][0]["status"] == "done"
        (warning,) = result["warnings"]
        assert "progress.png: cannot be written: File too large" in warning
        assert "`fedsim plot`" in warning
        assert f"warning: {warning}" in err
        assert not Path("runs/small-2/progress.png").exists()
        out, err = fedsim("-q", "run", "run.yaml")
        assert "scores after the last round" in out
        assert "File too large" in err

    def test_users_prints_do_not_disturb_json(
        self, fedsim: Command, user_module: UserModule
    ) -> None:
        module = user_module(
            """
            print("imported")
            from fedsim.space import Parameter, Space
            class Loud:
                space, direction, agents = Space((Parameter("x", 0, 1),)), "maximize", 1
                def objective(self, agent):
                    return lambda point, rng: print("evaluated") or 1.0
            """
        )
        raw = small()
        raw["scenario"] = {"name": f"{module}:Loud"}
        out, err = fedsim("run", write(raw), "--json")
        assert last(out)["status"] == "done"
        assert "evaluated" in err
        out, err = fedsim("evaluate", f"{module}:Loud", "--point", "[0.5]", "--json")
        assert last(out)["value"] == 1.0

    def test_settings_seeds_and_backend(self, fedsim: Command) -> None:
        keys = {"scenario.name": "digits-svm", "scenario.agents": "2", "method.name": "ts"}
        keys |= {"rounds": "1", "scenario": "{name: synthetic}"}  # the last one wins
        assignments = [part for k, v in keys.items() for part in ("--set", f"{k}={v}")]
        write(small())
        options = ["--seeds", "3,5", "--backend", "serial", "--agents-per-actor", "2"]
        out, _ = fedsim("run", "run.yaml", *assignments, *options, "--dry-run", "--json")
        result = last(out)
        assert result["backend"] == "serial"
        assert result["config"]["seeds"] == [3, 5]
        assert result["config"]["agents_per_actor"] == 2
        assert result["config"]["method"]["name"] == "ts"
        assert result["config"]["rounds"] == 1
        assert result["config"]["scenario"] == {"name": "synthetic", **synthetic_defaults()}
        assert not Path("runs").exists()

    def test_an_address_is_a_text(self, fedsim: Command) -> None:
        write(small())
        arguments = ("--backend", "serial", "--dry-run", "--json", "--address", "10:20")
        out, _ = fedsim("run", "run.yaml", *arguments)
        assert last(out)["config"]["address"] == "10:20"  # and not 620, base 60

    def test_a_dry_run_prints_a_configuration_that_can_be_run(self, fedsim: Command) -> None:
        out, _ = fedsim("run", write(small("dp-fts-de")), "--dry-run")
        assert "# plan: 3 agents in this process" in out
        assert "privacy: ε" in out
        again, _ = fedsim("run", write(parse_yaml(out), "again.yaml"), "--dry-run")
        assert again == out

    def test_the_chosen_folder(self, fedsim: Command) -> None:
        fedsim("run", write(small()), "--out", "x/y")
        assert Path("x/y/seed-0/observations.parquet").exists()

    def test_the_noise_control(self, fedsim: Command) -> None:
        out, _ = fedsim("run", write(small("dp-fts-de")), "--noise-control", "--json")
        labels = [one["variant"] for one in last(out)["runs"]]
        assert labels == ["dp-fts-de", "dp-fts-de (noise only)"]

    def test_it_runs_without_a_file(self, fedsim: Command) -> None:
        cheap = {"scenario.agents": "2", "rounds": "1", "scenario.grid_size": "10"}
        assignments = [part for k, v in cheap.items() for part in ("--set", f"{k}={v}")]
        out, _ = fedsim("run", *assignments, "--backend", "serial")
        assert Path("runs/private-sharing-1/config.yaml").exists()
        assert "alone, which shares nothing: " in " ".join(out.split())

    def test_markup_in_names_is_text(self, fedsim: Command) -> None:
        variants: dict[str, Any] = {"[red]a[/red]": {}, "[/bold]": {}}
        out, _ = fedsim("run", write(small(variants=variants)))
        assert "[red]a[/red]" in out
        assert "[/bold]" in out


def synthetic_defaults() -> dict[str, Any]:
    from dataclasses import asdict

    from fedsim.scenarios.synthetic import Synthetic

    written: dict[str, Any] = json.loads(json.dumps(asdict(Synthetic())))
    return {k: v for k, v in written.items() if k != "seed"}


class TestOthers:
    def test_list(self, fedsim: Command) -> None:
        found = last(fedsim("list", "--json")[0])
        assert found.keys() == {"configurations", "scenarios", "methods"}
        assert set(found["methods"]) == set(METHODS)
        assert set(found["scenarios"]) == set(SCENARIOS)
        assert set(found["configurations"]) == set(ready_names())
        assert all(name in fedsim("list")[0] for name in METHODS)

    def test_show_and_resume_of_a_finished_run(self, fedsim: Command) -> None:
        ran = last(fedsim("run", write(small("dp-fts-de")), "--json")[0])
        shown = last(fedsim("show", "runs/small-1", "--json")[0])
        assert shown["runs"] == ran["runs"]
        assert "privacy: ε" in fedsim("show", "runs/small-1")[0]
        again = last(fedsim("resume", "runs/small-1", "--json")[0])
        assert again.keys() == SHAPE | {"resumed"}
        assert again["runs"] == ran["runs"]

    def test_resume_makes_what_a_crash_at_the_start_left_out(self, fedsim: Command) -> None:
        ran = last(fedsim("run", write(small(seeds=[0, 1])), "--json")[0])
        for path in sorted(Path("runs/small-1/seed-1").rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        Path("runs/small-1/seed-1").rmdir()
        again = last(fedsim("resume", "runs/small-1", "--json")[0])
        digests = [[one["journal_sha256"] for one in x["runs"]] for x in (ran, again)]
        assert digests[0] == digests[1]

    @pytest.mark.parametrize("name", ready_names())
    def test_init(self, fedsim: Command, name: str) -> None:
        fedsim("init", name)
        text = Path(f"{name}.yaml").read_text("utf-8")
        assert parse_yaml(text)["scenario"]["name"] in SCENARIOS
        assert "already exists" in fedsim("init", name, code=2)[1]
        assert Path(f"{name}.yaml").read_text("utf-8") == text

    def test_init_of_an_unknown_name(self, fedsim: Command) -> None:
        assert "did you mean 'synthetic'?" in fedsim("init", "syntetic", code=2)[1]


class TestEvaluate:
    SVM = ("evaluate", "digits-svm", "--set", "scenario.agents=3", "--json")

    def test_a_point_by_names_or_in_order(self, fedsim: Command) -> None:
        named = last(fedsim(*self.SVM, "--point", '{"gamma": 0.01, "C": 10}')[0])
        listed = last(fedsim(*self.SVM, "--point", "[10, 0.01]")[0])
        assert named == listed
        assert 0 < named["value"] <= 1
        other = last(fedsim(*self.SVM, "--point", "[10, 0.01]", "--agent", "2")[0])
        assert (other["agent"], other["value"] != named["value"]) == (2, True)

    def test_noise_and_no_noise(self, fedsim: Command) -> None:
        call = ("evaluate", "synthetic", "--point", "[1]", "--json", "--set", "scenario.agents=2")
        values = [
            last(fedsim(*call, *extra)[0])["value"]
            for extra in ((), ("--seed", "0"), ("--noiseless",), ("--seed", "1"))
        ]
        assert values[0] == values[1]
        assert len(set(values)) == 3
        assert "does not return noiseless values" in fedsim(
            *self.SVM, "--point", "[1, 0.1]", "--noiseless", code=2
        )[1].replace("\n", " ")

    def test_it_is_the_runs_own_objective(self, fedsim: Command) -> None:
        api.run(write(small()))
        first = api.load("runs/small-1").observations.iloc[0]
        point = json.dumps([first["point.x"]])
        out, _ = fedsim("evaluate", "run.yaml", "--point", point, "--json", "--noiseless")
        assert last(out)["value"] == first["noiseless"]

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("--point", "[1]"), "point: expected 2 values (C, gamma), got 1"),
            (("--point", '{"c": 1, "gamma": 1}'), "point: unknown parameter 'c'"),
            (("--point", "[1e9, 1]"), "point: C: expected a value in"),
            (("--point", "{"), "--point: not valid JSON"),
            (("--point", '{"C": 1, "gamma": 1, "C": 2}'), "--point: 'C' is given twice"),
            (("--point", "3"), "--point: expected an object or a list, got 3"),
            (("--point", "[1, 1]", "--agent", "3"), "agent: expected 0 to 2, got 3"),
            (("--point", '["a", 1]'), "point: C: expected a number, got 'a'"),
            (
                ("synthetic", "--point", "[0.5]"),
                "point: x: expected one of its 1000 levels, got 0.5; the nearest is 0.5005",
            ),
        ],
    )
    def test_what_is_wrong(self, fedsim: Command, arguments: tuple[str, ...], message: str) -> None:
        given = self.SVM if arguments[0].startswith("--") else ("evaluate",)
        assert message in " ".join(fedsim(*given, *arguments, code=2)[1].split())

    def test_a_point_is_what_was_written(self, fedsim: Command, user_module: UserModule) -> None:
        scenario = f"{user_module(MIXED)}:Mixed"
        point = {"C": 1e-3, "loss": "log", "layers": 2, "scaled": True, "gamma": 1, "units": 32}
        for given in (point, list(point.values())):
            found = last(fedsim("evaluate", scenario, "--point", json.dumps(given), "--json")[0])
            assert found["point"] == point
            assert list(map(type, found["point"].values())) == [float, str, int, bool, int, int]
        for name, value, message in (
            ("loss", "lgo", "point: loss: unknown option 'lgo'; did you mean 'log'?"),
            ("layers", 1.5, "point: layers: expected a whole number, got 1.5"),
            ("units", 33, "point: units: expected one of its 5 levels, got 33; the nearest is 32"),
            ("scaled", 1, "point: scaled: unknown option 1; valid names: False, True"),
        ):
            wrong = json.dumps({**point, name: value})
            _, err = fedsim("evaluate", scenario, "--point", wrong, code=2)
            assert message in " ".join(err.split())

    def test_an_objective_that_raises(self, fedsim: Command, user_module: UserModule) -> None:
        module = user_module(
            """
            from fedsim.space import Parameter, Space
            class Bad:
                space, direction, agents = Space((Parameter("x", 0, 1),)), "maximize", 1
                def objective(self, agent):
                    return lambda point, rng: 1 / 0  # mine
            """
        )
        _, err = fedsim("evaluate", f"{module}:Bad", "--point", "[0.5]", code=3)
        assert "# mine" in err
        assert "/fedsim/" not in err

    def test_an_objective_that_hangs(self, fedsim: Command, user_module: UserModule) -> None:
        module = user_module(
            """
            import threading
            from fedsim.space import Parameter, Space
            class Hangs:
                space, direction, agents = Space((Parameter("x", 0, 1),)), "maximize", 1
                def objective(self, agent):
                    return lambda point, rng: threading.Event().wait(60)  # mine
            """
        )
        limit = ("--set", "deadlines.evaluation=0.05")
        _, err = fedsim("evaluate", f"{module}:Hangs", "--point", "[0.5]", *limit, code=3)
        assert "# mine" in err
        assert (
            "the objective did not return within 0.05 s (agent 0, point {'x': 0.5}); "
            "deadlines.evaluation sets the limit" in " ".join(err.split())
        )


class TestUsage:
    @pytest.mark.parametrize(
        "arguments",
        [
            ("frobnicate",),
            ("run", "--frobnicate"),
            ("run", "a", "b"),
            ("run", "--set"),
            ("resume",),
            ("evaluate", "synthetic"),
            ("evaluate", "synthetic", "--point", "[0]", "--agent", "x"),
            ("plot",),
        ],
    )
    def test_errors_exit_with_2(self, fedsim: Command, arguments: tuple[str, ...]) -> None:
        _, err = fedsim(*arguments, code=2)
        assert "Traceback" not in err

    def test_help(self, fedsim: Command) -> None:
        out, _ = fedsim("--help")
        for command in ("run", "resume", "list", "show", "init", "evaluate", "plot", "privacy"):
            assert re.search(rf"^\W*{command} {{2,}}\w", out, re.MULTILINE), command


@pytest.mark.heavy
class TestProcess:
    def environment(self, **changes: str) -> dict[str, str]:
        return {**os.environ, **changes}

    def test_without_unicode_and_without_assertions(self, here: Path) -> None:
        """A locale without Greek letters, `python -O`, and a file with Greek in it."""
        raw = small("dp-fts-de", name="β", variants={"ε = 1": {}})
        write(raw)
        command = [sys.executable, "-O", *COMMAND[1:], "run", "run.yaml"]
        environment = self.environment(
            LC_ALL="C", PYTHONCOERCECLOCALE="0", PYTHONUTF8="0", PYTHONIOENCODING="ascii"
        )
        got = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert got.returncode == 0, got.stderr
        (run,) = api.load(next(Path("runs").iterdir())).runs
        assert run.variant == "ε = 1"

    def test_when_nobody_reads_any_more(self, here: Path) -> None:
        with subprocess.Popen([*COMMAND, "list"], stdout=-1, stderr=-1) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.close()
            err = process.stderr.read()
            assert (process.wait(), err) == (141, b"")

    def test_a_users_folder_does_not_hide_ours(self, here: Path) -> None:
        for name in ("scenarios", "actors", "dashboards"):
            (here / name).mkdir()
            (here / name / "__init__.py").write_text("raise RuntimeError('not ours')")
        got = subprocess.run([*COMMAND, "list"], capture_output=True, text=True, check=False)
        assert got.returncode == 0, got.stderr

    def test_help_loads_nothing_heavy(self, here: Path) -> None:
        """What --help loads is typer, rich and the signatures of the commands."""
        heavy = {"numpy", "yaml", "pydantic", "scipy", "pandas", "ray", "matplotlib"}
        code = "import sys; from fedsim.cli.main import run_command; run_command(sys.argv[1:])"
        loaded = loaded_by(code, "--help")
        assert not heavy & loaded
        ours = {name for name in loaded if name.startswith("fedsim.")}
        assert {name for name in ours if not name.startswith("fedsim.cli")} <= {
            "fedsim.errors",
            "fedsim.results",
            "fedsim.results.digits",
            "fedsim.signals",
            "fedsim.streams",
            "fedsim.systemerrors",
        }

    @pytest.mark.parametrize(
        ("method", "heavy"),
        [
            ("ts", {"dp_accounting", "scipy.stats", "scipy.signal"}),
            ("dp-fts-de", set()),  # ε needs these
        ],
    )
    def test_a_dry_run_loads_what_it_needs(self, here: Path, method: str, heavy: set[str]) -> None:
        code = "import sys; from fedsim.cli.main import run_command; run_command(sys.argv[1:])"
        loaded = loaded_by(code, "run", write(small(method)), "--dry-run")
        heavy = heavy | {"pandas", "pyarrow", "matplotlib", "ray", "sklearn", "fedsim.cli.closing"}
        assert not heavy & loaded


Effect = Callable[[api.Run], object]


def recorded(run: api.Run) -> object:
    return [body(one.folder.journal) for one in run.runs]


def folders(run: api.Run) -> object:
    return [str(one.folder.path.relative_to(run.folder)) for one in run.runs]


KEYS: dict[str, tuple[Any, Effect]] = {
    "name": ("other", lambda run: run.folder.name.rpartition("-")[0]),
    "scenario": ({"name": "synthetic", "agents": 4}, recorded),
    "method": ({"name": "dp-fts", "initial_points": 3}, recorded),  # the budget wants a private one
    "rounds": (3, recorded),
    "seeds": ([1], recorded),
    # Its draws may lead to the same points of a small grid; the releases are kept in any case.
    "privacy.noise_source": (
        "system",
        lambda run: len(list(run.runs[0].folder.path.glob("state/releases/*.npz"))),
    ),
    "privacy.accountant": ("moments", recorded),
    "privacy.accounting": ("exact", recorded),
    "privacy.delta": (0.01, lambda run: run.summaries()[0]["epsilon"]["delta"]),
    "privacy.budget": (0.01, recorded),
    "availability": (0.5, recorded),
    "variants": ({"a": {}, "b": {}}, folders),
    "noise_control": (True, folders),
    "transcript": (True, lambda run: run.runs[0].folder.transcript.exists()),
}
ELSEWHERE = {
    "backend": "tests/actors",
    "agents_per_actor": "tests/actors",
    "address": "tests/actors",
    "deadlines.evaluation": "tests/test_failures.py",
    "deadlines.start": "tests/actors",
    "deadlines.answer": "tests/actors",
    "on_error": "tests/fedsim/simulation/test_on_error.py",
    "resources": "tests/actors",
    "grid": "tests/fedsim/config/test_sweeps.py",
    "zip": "tests/fedsim/config/test_sweeps.py",
}
PRIVATE = {"privacy": {"delta": 1e-5, "budget": 3.0}}
"""Of two releases, this budget allows the first; it depends on how they are accounted."""


def test_all_keys_are_looked_at() -> None:
    nested = {"privacy", "deadlines"}
    fields = Config.model_fields
    keys = set(fields) - nested
    keys |= {f"{n}.{key}" for n in nested for key in fields[n].default.model_dump()}
    assert keys == KEYS.keys() | ELSEWHERE.keys()
    root = Path(__file__).parents[1]
    for key, place in ELSEWHERE.items():
        files = [root / place] if place.endswith(".py") else sorted((root / place).glob("*.py"))
        assert any(key.rpartition(".")[2] in file.read_text("utf-8") for file in files), key


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> api.Run:
    folder = tmp_path_factory.mktemp("unchanged") / "small-1"
    return api.run(small("dp-fts-de", **PRIVATE), out=folder)


@pytest.mark.parametrize("key", KEYS)
def test_every_key_changes_something(here: Path, unchanged: api.Run, key: str) -> None:
    value, effect = KEYS[key]
    raw = deepcopy(small("dp-fts-de", **PRIVATE))
    *parents, leaf = key.split(".")
    section = raw
    for parent in parents:
        section = section[parent]
    section[leaf] = value
    assert effect(api.run(raw)) != effect(unchanged)
