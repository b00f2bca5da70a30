"""Failures as a user sees them: the message, the exit code, and nothing recorded is lost."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

import fedsim as api
from fedsim.cli.main import run_command
from fedsim.record.journal import read_journal
from fedsim.record.runfolder import RunFolder
from tests.util.processes import COMMAND
from tests.util.small import UserModule, await_lines, small, write

USERS = """
    import os, sys, time
    from pathlib import Path
    from fedsim.space import Parameter, Space

    class Mine:
        space, direction = Space((Parameter("x", 0, 1),)), "maximize"

        def __init__(self, agents: int = 2, scale: float = 1.0):
            self.agents = agents

        def objective(self, agent):
            calls = []

            def objective(point, rng):
                calls.append(point)
                if agent == 1 and len(calls) == 4 and not Path("mended").exists():
                    {trouble}
                return point["x"] + rng.normal()

            return objective
"""


def users_config(module: UserModule, trouble: str = "pass", **changes: Any) -> dict[str, Any]:
    raw = small(rounds=3, **changes)
    raw["scenario"] = {"name": f"{module(USERS.format(trouble=trouble))}:Mine"}
    return raw


class Outcome:
    """What a command did: its exit code and all of its words."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, " ".join(err.split())


@pytest.fixture
def fedsim(here: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    def call(*arguments: str) -> Outcome:
        capsys.readouterr()
        code = run_command(arguments)
        return Outcome(code, *capsys.readouterr())

    return call


def status(folder: str) -> str:
    (summary,) = api.load(folder).summaries()
    return str(summary["status"])


def lines_of(folder: str = "runs/small-1/seed-0") -> list[Any]:
    return list(read_journal(Path(folder) / "journal.jsonl"))


def uninterrupted() -> str:
    """Return the journal's digest of the run without the trouble."""
    Path("mended").touch()
    return str(api.run("run.yaml", out="reference").summaries()[0]["journal_sha256"])


def resumed(folder: str = "runs/small-1") -> str:
    """Return the digest of the journal of a run that is resumed after the fault is fixed."""
    (summary,) = api.resume(folder).summaries()
    assert summary["status"] == "done"
    return str(summary["journal_sha256"])


class TestMistakes:
    """Each exits with 2, says what to do, shows no traceback and leaves no folder behind."""

    @pytest.mark.parametrize(
        ("assignment", "message"),
        [
            ("raunds=3", "raunds: unknown key; did you mean 'rounds'?"),
            ("method.dp.samplingrate=1", "method.dp.samplingrate: unknown key; did you mean 'sam"),
            ("rounds=many", "rounds: expected a whole number"),
            ("rounds=true", "rounds: expected a number, got true"),
            ("rounds=0", "rounds: expected a number of at least 1, got 0"),
            ("scenario.agents=0", "scenario.agents: expected at least 1, got 0"),
            ("scenario.noise_variance=.nan", "noise_variance: expected a number, got nan"),
            ("scenario.noise_variance=.inf", "noise_variance: expected a finite number"),
            ("method.dp.noise_multiplier=.inf", "noise_multiplier: expected a finite number above"),
            ("method.dp.noise_multiplier=.nan", "noise_multiplier: expected a number, got nan"),
            ("method.dp.sampling_rate=2", "sampling_rate: expected a probability in (0, 1], got 2"),
            ("method.subregions=9", "subregions: expected 1 to the number of agents (3), got 9"),
            ("method.dp=null", "method.dp: dp-fts-de needs it, got null"),
            ("method.own_probability=[bold]", "method.own_probability: expected text"),
            ("privacy.delta=1", "privacy.delta: expected a number below 1"),
            ("scenario.name=no.such:Thing", "no module 'no' in "),
            ("rounds", "--set: expected key=value, got 'rounds'"),
        ],
    )
    def test_a_setting(self, fedsim: Callable[..., Outcome], assignment: str, message: str) -> None:
        got = fedsim("run", write(small("dp-fts-de")), "--set", assignment)
        assert got.code == 2
        assert got.err.startswith("error: ")
        assert message in got.err
        assert "Traceback" not in got.err
        assert not Path("runs").exists()

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"a: [", "not valid YAML"),
            (b"rounds: 1\nrounds: 2", "not valid YAML: the key 'rounds' appears twice"),
            (b"- 1", "expected a mapping of keys, got list"),
            (b"\x80\x81", "not a text file in UTF-8"),
            (b"", "is empty; `fedsim init NAME` writes one"),
        ],
    )
    def test_a_file(self, fedsim: Callable[..., Outcome], content: bytes, message: str) -> None:
        Path("run.yaml").write_bytes(content)
        got = fedsim("run", "run.yaml")
        assert got.code == 2
        assert f"error: run.yaml: {message}" in got.err
        assert not Path("runs").exists()

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("run", "mising.yaml"), "mising.yaml: neither a file nor a ready configuration"),
            (("run", "syntetic"), "did you mean 'synthetic'?"),
            (("run", "."), ".: a folder; expected a configuration file, or a ready one"),
            (("run", "none"), "none: a folder; expected a configuration file, or a ready one"),
            (("run", "one"), "one: a folder; expected a file: did you mean 'one/b.yml'?"),
            (("run", "two"), "two: a folder; expected a configuration file, or a ready one"),
            (("run", "--data", "nowhere"), "--data: expected the folder of the data sets"),
            (("resume", "nowhere"), "nowhere: not a run folder"),
            (("show", "nowhere"), "nowhere: not a run folder"),
            (("plot", "nowhere"), "nowhere: not a run folder"),
        ],
    )
    def test_something_missing(
        self, fedsim: Callable[..., Outcome], arguments: tuple[str, ...], message: str
    ) -> None:
        for file in ("none/a.yaml", "one/a.yaml", "two/a.yaml"):
            Path(file).parent.mkdir()
            Path(file).write_text("jobs: []\n")
        for file in ("one/b.yml", "two/b.yaml", "two/c.yaml"):
            write(small(), file)
        got = fedsim(*arguments)
        assert got.code == 2
        assert message in got.err
        assert "Traceback" not in got.err

    def test_an_existing_out(self, fedsim: Callable[..., Outcome]) -> None:
        Path("there").mkdir()
        got = fedsim("run", write(small()), "--out", "there")
        assert (got.code, list(Path("there").iterdir())) == (2, [])
        assert "--out: there already exists; choose a new folder, or `fedsim resume th" in got.err

    def test_a_folder_that_cannot_be_written(self, fedsim: Callable[..., Outcome]) -> None:
        Path("runs").write_text("a file is in the way")
        got = fedsim("run", write(small()))
        assert (got.code, got.err) == (2, "error: runs: cannot be written: File exists")
        got = fedsim("run", "run.yaml", "--out", "runs/inside")
        assert got.code == 2
        assert "error: runs/inside: cannot be written: Not a directory" in got.err

    def test_more_memory_than_there_is(self, fedsim: Callable[..., Outcome]) -> None:
        pytest.importorskip("ray")
        many = ("--set", "scenario.agents=1000000", "--agents-per-actor", "1")
        got = fedsim("run", write(small()), "--backend", "ray", *many)
        assert got.code == 4
        assert "GB" in got.err
        assert not Path("runs").exists()


class TestUsersCode:
    @pytest.mark.parametrize(
        ("trouble", "message", "shown"),
        [
            (
                "return float('nan')",
                "the objective returned nan (agent 1, round 2, point {'x': ",
                0,
            ),
            (
                "return float('inf')",
                "the objective returned inf (agent 1, round 2, point {'x': ",
                0,
            ),
            ("return None", "the objective returned NoneType (agent 1, round 2", 0),
            ("raise KeyError('[red]x')", "the objective raised KeyError (agent 1, round 2", 1),
            ("raise ValueError()", "}) what was recorded is kept; continue with", 1),
            ("sys.exit(0)", "the objective raised SystemExit (agent 1, round 2", 1),
            (
                "while not Path('mended').exists(): time.sleep(0.01)",
                "the objective did not return within 1 s (agent 1, round 2",
                1,
            ),
        ],
    )
    def test_an_objective_that_fails_costs_nothing_that_was_recorded(
        self,
        fedsim: Callable[..., Outcome],
        user_module: UserModule,
        trouble: str,
        message: str,
        shown: bool,
    ) -> None:
        raw = users_config(user_module, trouble, deadlines={"evaluation": 1.0})
        got = fedsim("run", write(raw))
        assert got.code == 3
        assert message in got.err
        assert (f"{trouble}" in got.err) == shown
        assert "/fedsim/" not in got.err
        assert [entry.t for entry in lines_of()] == [0, 1]
        assert status("runs/small-1") == "failed"
        expected = uninterrupted()
        assert resumed() == expected

    @pytest.mark.parametrize("statement", ["import nothing_like_it", "1 / 0", "sys.exit('bye')"])
    def test_a_module_that_cannot_be_imported_shows_its_own_traceback(
        self, fedsim: Callable[..., Outcome], user_module: UserModule, statement: str
    ) -> None:
        raw = small()
        raw["scenario"] = {"name": user_module(f"import sys\n{statement}\n") + ":Mine"}
        got = fedsim("run", write(raw))
        assert got.code == 3
        assert statement in got.err
        assert "/fedsim/" not in got.err
        assert not Path("runs").exists()

    def test_a_typo_in_its_settings_shows_the_nearest(
        self, fedsim: Callable[..., Outcome], user_module: UserModule
    ) -> None:
        got = fedsim("run", write(users_config(user_module)), "--set", "scenario.scael=2")
        assert got.code == 2
        assert "scenario.scael: unknown key; did you mean 'scale'?" in got.err


class TestDisk:
    @pytest.mark.heavy
    def test_a_full_disk_while_it_runs(self, fedsim: Callable[..., Outcome]) -> None:
        """No file may grow beyond a few hundred bytes: the journal is the first to hit it."""
        write(small(rounds=6))
        expected = uninterrupted()
        size = (Path("reference/seed-0/journal.jsonl")).stat().st_size
        limit = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({size // 2},) * 2);"
        code = COMMAND[2].replace("; main()", f"; {limit} main()")
        command = [sys.executable, "-c", code, "run", "run.yaml"]
        got = subprocess.run(command, capture_output=True, text=True, check=False)
        words = " ".join(got.stderr.split())
        assert got.returncode == 3, words
        assert "cannot be written: File too large; what was recorded is kept: make room" in words
        assert "Traceback" not in words
        assert 0 < len(lines_of()) < 7
        assert resumed() == expected

    @pytest.mark.heavy
    def test_no_more_open_files_while_it_runs(
        self, fedsim: Callable[..., Outcome], user_module: UserModule
    ) -> None:
        """The limit is that of what is open in round 2: the next file is the checkpoint."""
        limit = "len(os.listdir('/dev/fd')) - 1"
        trouble = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({limit},) * 2)"
        write(users_config(user_module, trouble))
        expected = uninterrupted()
        Path("mended").unlink()
        command = [*COMMAND, "run", "run.yaml", "--json"]
        got = subprocess.run(command, capture_output=True, text=True, check=False)
        words = " ".join(got.stderr.split())
        assert got.returncode == 3, words
        assert "Too many open files; what was recorded is kept: raise the limit of open" in words
        assert words.endswith("continue with: fedsim resume runs/small-1")
        assert "Traceback" not in words
        error = json.loads(got.stdout)["error"]
        assert (error["kind"], error["exit_code"], error["resumable"]) == ("DiskError", 3, True)
        assert error["folder"] == "runs/small-1"
        Path("mended").touch()
        assert resumed() == expected

    @pytest.mark.parametrize("name", ["timings.jsonl", "checkpoint.npz", "observations.parquet"])
    def test_a_file_that_cannot_be_written(
        self, fedsim: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        """Not blamed on the method, and fixed by making it writable."""
        write(small())
        expected = uninterrupted()
        folder = Path("blocked/seed-0")
        blocked = folder / ("state" if name.endswith("npz") else "") / name
        create = RunFolder.create

        def create_and_block(self: RunFolder, config: Any) -> None:
            create(self, config)
            blocked.mkdir()

        with monkeypatch.context() as patched:
            patched.setattr(RunFolder, "create", create_and_block)
            got = fedsim("run", "run.yaml", "--out", "blocked")
        assert got.code in (2, 3)
        assert "Is a directory" in got.err or "cannot be written" in got.err
        assert "method" not in got.err
        blocked.rmdir()
        assert resumed("blocked") == expected


@pytest.mark.heavy
class TestKilled:
    def test_ctrl_c_says_how_to_go_on(
        self, fedsim: Callable[..., Outcome], user_module: UserModule
    ) -> None:
        write(users_config(user_module, "time.sleep(60)"))
        command = [*COMMAND, "run", "run.yaml", "--out", "my run"]
        with subprocess.Popen(command, stdout=-1, stderr=-1, text=True) as process:
            await_lines(Path("my run/seed-0/journal.jsonl"), 3)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=180)
        assert process.returncode == 130
        assert "stopped by Ctrl-C; continue with: fedsim resume 'my run'" in " ".join(err.split())
        assert "Traceback" not in err
        assert lines_of("my run/seed-0")
        assert status("my run") == "interrupted"
        expected = uninterrupted()
        assert resumed("my run") == expected

    def test_kill_9(self, fedsim: Callable[..., Outcome], user_module: UserModule) -> None:
        write(users_config(user_module, "time.sleep(60)"))
        with subprocess.Popen([*COMMAND, "run", "run.yaml"], stdout=-1, stderr=-1) as process:
            await_lines(Path("runs/small-1/seed-0/journal.jsonl"), 3)
            busy = fedsim("resume", "runs/small-1")
            assert (busy.code, "another process is running" in busy.err) == (2, True)
            process.kill()
        assert len(lines_of()) == 2
        assert status("runs/small-1") == "running"
        expected = uninterrupted()
        assert resumed() == expected


class TestNewcomers:
    """Mistakes that a first-time user made."""

    def test_other_settings_are_not_mixed_into_a_run(self, fedsim: Callable[..., Outcome]) -> None:
        fedsim("run", write(small()))
        folder = Path("runs/small-1/seed-0")
        RunFolder(folder).update_manifest(status="running")
        config = Path("runs/small-1/config.yaml")
        config.write_text(config.read_text("utf-8").replace("rounds: ", "rounds: 1"), "utf-8")
        got = fedsim("resume", "runs/small-1")
        assert (got.code, "differs in rounds from what the run began with" in got.err) == (2, True)

    @pytest.mark.parametrize(
        "trouble", ["return 10**400", "raise GeneratorExit", "raise KeyboardInterrupt"]
    )
    def test_odd_objectives(
        self, fedsim: Callable[..., Outcome], user_module: UserModule, trouble: str
    ) -> None:
        got = fedsim("run", write(users_config(user_module, trouble)))
        assert got.code == 3
        assert "the objective r" in got.err
        assert "(agent 1, round 2" in got.err
        assert "/fedsim/" not in got.err

    def test_a_time_limit_by_signals_is_told_where_it_works(
        self, fedsim: Callable[..., Outcome], user_module: UserModule
    ) -> None:
        trouble = "import signal; signal.signal(signal.SIGALRM, signal.SIG_DFL)"
        got = fedsim("run", write(users_config(user_module, trouble)))
        assert got.code == 3
        words = " ".join(got.err.split())
        assert "signal only works in main thread" in words
        assert (
            "objectives run in another thread, unless as Ray tasks (resources: {cpus: 1})" in words
        )

    def test_an_objective_may_change_the_folder(
        self, fedsim: Callable[..., Outcome], user_module: UserModule, tmp_path: Path
    ) -> None:
        raw = users_config(user_module, f"import os; os.chdir({str(tmp_path.parent)!r})")
        assert fedsim("run", write(raw)).code == 0
        assert Path("runs/small-1/seed-0/rounds.parquet").exists()

    def test_huge_noise_multipliers(self, fedsim: Callable[..., Outcome]) -> None:
        values = ("--agents", "9", "--rounds", "5", "--sampling-rate", "0.5")
        got = fedsim("privacy", "subsampled", *values, "--noise-multiplier", "1e200", "--json")
        assert got.code == 0
        assert json.loads(got.out)["pld"] < 1e-6

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (
                ("--seeds", "3-1"),
                "seeds: 3-1 is empty, its first seed is above its last; write 1-3",
            ),
            (("--seeds", "0-99999999"), "seeds: expected at most 10000"),
            (("--set", "variants={'': {}}"), "variants: expected a label for every variant"),
            (
                ("--set", "scenario.name=nowhere:x:"),
                "scenario.name: 'nowhere:x:': expected package.module:Class",
            ),
            (
                ("--set", "scenario={name: 'nowhere:x:'}"),
                "scenario.name: 'nowhere:x:': expected package.module:Class",
            ),
        ],
    )
    def test_mistakes(
        self, fedsim: Callable[..., Outcome], arguments: tuple[str, ...], message: str
    ) -> None:
        got = fedsim("run", write(small()), *arguments)
        assert got.code == 2
        assert message in got.err

    def test_show_says_where_an_unfinished_run_stands(
        self, fedsim: Callable[..., Outcome], user_module: UserModule
    ) -> None:
        fedsim("run", write(users_config(user_module, "raise KeyError('x')")))
        shown = fedsim("show", "runs/small-1").out
        assert "failed, 1 of" in " ".join(shown.split())
        assert "continue with: fedsim resume runs/small-1" in shown

    def test_the_version(self, fedsim: Callable[..., Outcome]) -> None:
        assert fedsim("--version").out.strip() == metadata.version("fedsim")
