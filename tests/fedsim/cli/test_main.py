"""The process of the command line: exit codes, errors, streams and signals."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fedsim
from fedsim.cli.main import run_command
from tests.util.processes import COMMAND, PATIENCE, await_steps, loaded_by
from tests.util.small import UserModule, await_lines, small, write
from tests.util.strict import strict_json

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(here: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs a command in an empty folder; returns its exit code and what it printed."""

    def run(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run_command(arguments)
        out, err = capsys.readouterr()
        return code, out, " ".join(err.split())

    return run


def scenario(objective: str, agents: int = 2) -> str:
    """Return a module with the class ``Mine``, whose objective has this body."""
    return f"""
import os, signal, sys, time
from pathlib import Path
from fedsim.space import Parameter, Space

class Mine:
    space, direction, agents = Space((Parameter("x", 0, 1),)), "maximize", {agents}

    def objective(self, agent):
        def objective(point, rng):
{textwrap.indent(objective, " " * 12)}
        return objective
"""


def users(module: UserModule, objective: str, **changes: Any) -> str:
    """Write a configuration with an objective of the user's, and return the file's name."""
    return write({**small(**changes), "scenario": {"name": f"{module(scenario(objective))}:Mine"}})


class TestErrorsAsJson:
    """One JSON object on stdout; the words stay on stderr, and the exit code stays."""

    @pytest.mark.parametrize(
        ("arguments", "code", "kind", "message"),
        [
            (("run", "--frobnicate"), 2, "UsageError", "No such option: --frobnicate"),
            (("show",), 2, "UsageError", "Missing argument"),
            (("frobnicate",), 2, "UsageError", "No such command 'frobnicate'"),
            (("run", "synthetic", "--set", "raunds=3"), 2, "ConfigError", "raunds: unknown key"),
            (("show", "nowhere"), 2, "RunFolderError", "nowhere: not a run folder"),
            (("privacy", "subsampled", "--agents", "x"), 2, "UsageError", "Invalid value for"),
            (("runs", "nowhere"), 2, "RunFolderError", "nowhere: expected a folder with runs"),
        ],
    )
    def test_a_mistake(
        self, call: Command, arguments: tuple[str, ...], code: int, kind: str, message: str
    ) -> None:
        found, out, err = call(*arguments, "--json")
        (line,) = out.splitlines()
        error = strict_json(line)["error"]
        keys = {"kind", "message", "exit_code", "folder", "traceback", "resumable"}
        assert error.keys() == keys
        assert (found, error["exit_code"], error["kind"]) == (code, code, kind)
        assert message in error["message"]
        assert error["traceback"] is None
        assert call(*arguments)[:2] == (code, "")
        assert err

    def test_a_users_failure_has_its_traceback(
        self, call: Command, user_module: UserModule
    ) -> None:
        file = users(user_module, "raise KeyError('a\\\\ud800b')  # mine")
        code, out, err = call("run", file, "--json")
        error = strict_json(out)["error"]
        assert (code, error["kind"], error["exit_code"]) == (3, "ObjectiveError", 3)
        assert "# mine" in error["traceback"]
        assert "/fedsim/" not in error["traceback"]
        assert "# mine" in err
        assert error["folder"] == "runs/small-1"

    def test_ctrl_c(self, call: Command, monkeypatch: pytest.MonkeyPatch) -> None:
        def stop(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("fedsim.results.analysis.load", stop)
        code, out, err = call("show", "x", "--json")
        error = strict_json(out)["error"]
        assert (code, error["exit_code"], error["kind"]) == (130, 130, "Interrupted")
        assert error["message"] == "stopped by Ctrl-C"
        assert err.endswith("stopped by Ctrl-C")


class TestGoingOn:
    def test_a_failed_run_says_how(self, call: Command, user_module: UserModule) -> None:
        file = users(user_module, "assert Path('mended').exists()\nreturn point['x']")
        hint = "what was recorded is kept; continue with: fedsim resume 'my run'"
        code, _, err = call("run", file, "--out", "my run")
        assert (code, err.endswith(hint)) == (3, True)
        assert call("resume", "my run")[2].endswith(hint)
        Path("mended").touch()
        assert call("resume", "my run")[0] == 0

    def test_where_nothing_was_written_there_is_nothing_to_resume(
        self, call: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def no_room(*_: object) -> None:
            raise OSError(28, "No space left on device")

        file = write(small())
        monkeypatch.setattr(os, "fsync", no_room)
        code, _, err = call("run", file)
        assert code == 4
        assert "nothing was started: make room, then run it again" in err
        assert "fedsim resume" not in err
        assert not Path("runs").exists()


class TestFaults:
    def test_a_fault_of_ours_is_said_to_be_one(
        self, call: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: object, **__: object) -> None:
            raise ZeroDivisionError("by zero")

        monkeypatch.setattr("fedsim.results.analysis.load", fail)
        code, out, err = call("show", "x")
        assert (code, out) == (1, "")
        assert err.startswith("error: a fault in fedsim: ZeroDivisionError: by zero (test_main.py")
        assert "`fedsim -v ...`" in err
        assert "Traceback" not in err
        assert "in fail raise ZeroDivisionError" in call("-v", "show", "x")[2]

    def test_verbose_shows_where_a_mistake_was_noticed(self, call: Command) -> None:
        for arguments in (("-v", "run", "nowhere"), ("run", "nowhere", "-v")):
            _, _, err = call(*arguments)
            assert "nowhere: neither a file nor" in err
            assert "in read_config" in err
        assert "Traceback" not in call("run", "nowhere")[2]

    def test_a_file_that_cannot_be_read(
        self, call: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: object, **__: object) -> None:
            raise PermissionError(13, "Permission denied", "secret")

        monkeypatch.setattr("fedsim.results.analysis.load", fail)
        code, _, err = call("show", "x")
        assert (code, err) == (3, "error: secret: cannot be read or written: Permission denied")

    def test_a_folder_that_is_gone(self, call: Command, here: Path) -> None:
        (here / "gone").mkdir()
        os.chdir("gone")
        (here / "gone").rmdir()
        code, _, err = call("run", "synthetic", "--dry-run")
        assert (code, err) == (2, "error: the current folder was removed; change to another")
        assert call("list")[0] == 0

    def test_megabytes_of_words_are_cut(self, call: Command, user_module: UserModule) -> None:
        file = users(user_module, "raise ValueError('x' * 5_000_000)")
        for arguments in (("run", file), ("run", file, "--json")):
            code, out, err = call(*arguments)
            assert code == 3
            assert "ValueError" in err
            assert len(out) + len(err) < 200_000


class TestPrinting:
    def test_progress_is_on_stderr_and_the_result_on_stdout(self, call: Command) -> None:
        _, out, err = call("run", write(small()))
        assert "plan 3 agents in this process" in err
        assert "plan" not in out
        assert "scores after the last round" in out
        assert "scores after" not in err
        assert "folder" in out

    @pytest.mark.parametrize("arguments", [("-q", "run"), ("run", "-q"), ("run", "--quiet")])
    def test_quiet_leaves_the_result_only(self, call: Command, arguments: tuple[str, ...]) -> None:
        code, out, err = call(*arguments, write(small()))
        assert (code, err) == (0, "")
        assert "scores after the last round" in out
        _, out, err = call(*arguments, "run.yaml", "--json")
        assert err == ""
        assert strict_json(out)["status"] == "done"

    def test_quiet_does_not_hide_errors(self, call: Command) -> None:
        assert call("-q", "run", "nowhere")[2].startswith("error: nowhere: neither a file")

    def test_resuming_what_is_done_says_so(self, call: Command) -> None:
        call("run", write(small()))
        _, out, err = call("resume", "runs/small-1")
        assert "runs/small-1: already done, there is nothing to resume" in err
        assert "scores after the last round" in out
        _, out, _ = call("resume", "runs/small-1", "--json")
        assert strict_json(out)["resumed"] is False
        Path("runs/small-1/seed-0/journal.jsonl").unlink()
        code, _, err = call("resume", "runs/small-1")
        assert code == 3
        assert "runs/small-1: done, but not all of its record is left" in err
        assert "nothing to resume" not in err
        assert "its journal is missing; restore it from a copy, or move" in err

    def test_short_options(self, call: Command) -> None:
        assert call("-V") == call("--version")
        assert call("-V")[1].strip()
        for command in ((), ("run",), ("data", "fetch"), ("privacy", "calibrate")):
            code, out, _ = call(*command, "-h")
            assert code == 0
            assert f"Usage: {' '.join(('fedsim', *command))}" in out
            assert out == call(*command, "--help")[1]


def run_fedsim(*arguments: str, shell: str = '"$@"', **options: Any) -> Any:
    """Run the command line in a shell; its streams are as the shell's script says."""
    command = ["bash", "-c", shell, "bash", *COMMAND, *arguments]
    told: dict[str, Any] = {"capture_output": True, "text": True, "timeout": PATIENCE, **options}
    return subprocess.run(command, check=False, **told)


@pytest.mark.heavy
class TestStreams:
    @pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
    def test_closed_streams_do_not_end_a_run(self, here: Path, closed: str) -> None:
        expected = fedsim.run(small(), out="expected").runs[0].folder.journal.read_bytes()
        done = run_fedsim("run", write(small()), "--out", "out", shell=f'"$@" {closed}')
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
        (run,) = fedsim.load("out").runs
        assert run.status == "done"
        assert run.folder.journal.read_bytes() == expected  # nothing was printed into it

    def test_a_full_disk_under_the_output(self, here: Path) -> None:
        done = run_fedsim("list", shell='"$@" > /dev/full')
        assert done.returncode == 3
        assert (
            done.stderr
            == "error: the output cannot be written: [Errno 28] No space left on device\n"
        )

    def test_nobody_reads_the_progress(self, here: Path) -> None:
        """A run does not end because its log is gone."""
        done = run_fedsim("run", write(small()), shell='"$@" 2> >(exec <&-; sleep 0.1)')
        assert done.returncode == 0
        assert fedsim.load("runs/small-1").runs[0].status == "done"

    def test_as_a_module(self, here: Path) -> None:
        command = [sys.executable, "-m", "fedsim", "runs"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, "no runs in runs; `fedsim run` makes one\n")


def read_all(terminal: int) -> None:
    """Read what is printed to a terminal until it is closed."""
    with contextlib.suppress(OSError):
        while os.read(terminal, 65536):
            pass


@pytest.mark.heavy
@pytest.mark.parametrize(
    "ending",
    [
        "sys.stdout.close(); sys.stderr.close()",
        "sys.__stdout__.close(); sys.__stderr__.close()",
        "sys.stdout = 5; del sys.stderr",
    ],
)
def test_a_users_code_that_ends_the_streams(
    here: Path, user_module: UserModule, ending: str
) -> None:
    objective = f"if agent == 0 and hasattr(sys, 'stderr'): {ending}\nreturn point['x']"
    file = users(user_module, objective)
    done = subprocess.run([*COMMAND, "run", file], capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)
    assert done.stdout.endswith("folder  runs/small-1\npicture runs/small-1/progress.png\n")


@pytest.mark.heavy
class TestSignals:
    def test_a_run_is_interrupted_and_can_be_resumed(
        self, here: Path, user_module: UserModule
    ) -> None:
        objective = "while agents_wait(): time.sleep(0.01)\nreturn point['x']".replace(
            "agents_wait()",
            "Path('runs/small-1/seed-0/journal.jsonl').exists() and not Path('go').exists()",
        )
        file = users(user_module, objective)
        with subprocess.Popen([*COMMAND, "run", file], stderr=-1, stdout=-1, text=True) as process:
            await_lines(Path("runs/small-1/seed-0/journal.jsonl"), 1)
            process.send_signal(signal.SIGTERM)
            process.send_signal(signal.SIGTERM)  # impatient batch systems
            out, err = process.communicate(timeout=PATIENCE)
        assert (process.returncode, out) == (143, "")
        words = "stopped by SIGTERM; continue with: fedsim resume runs/small-1"
        assert words in " ".join(err.split())
        assert "Traceback" not in err
        (run,) = fedsim.load("runs/small-1").runs
        assert run.status == "interrupted"
        assert run.folder.manifest()["reason"] == "stopped by SIGTERM"
        Path("go").touch()
        assert fedsim.resume("runs/small-1").runs[0].status == "done"

    def test_a_terminal_that_closes(self, here: Path, user_module: UserModule) -> None:
        """It sends SIGHUP, and what is printed from then on is lost."""
        objective = "time.sleep(0.05 if not Path('go').exists() else 0)\nreturn point['x']"
        config = users(user_module, objective, rounds=200)
        master, slave = pty.openpty()
        process = subprocess.Popen(
            [*COMMAND, "run", config],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)
        threading.Thread(target=read_all, args=(master,), daemon=True).start()
        await_steps(Path("runs/small-1/seed-0/journal.jsonl"), 2)
        os.close(master)
        assert process.wait(PATIENCE) == 129
        (run,) = fedsim.load("runs/small-1").runs
        assert run.folder.manifest()["reason"] == "stopped by SIGHUP"
        Path("go").touch()
        assert fedsim.resume("runs/small-1").runs[0].status == "done"

    def test_a_signal_while_everything_is_loaded(self, here: Path) -> None:
        code = """
import os, signal, sys
class Stop:
    def find_spec(self, name, *_):
        if name == "fedsim.cli.app":
            os.kill(os.getpid(), signal.SIGTERM)
sys.meta_path.insert(0, Stop())
from fedsim.cli.main import main
main()
"""
        command = [sys.executable, "-c", code, "run"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (143, "")
        assert done.stderr == "stopped by SIGTERM\n"

    def test_a_signal_while_the_arguments_are_read(
        self, call: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Typer would exit with 130 and say nothing."""

        def stop(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("typer.core.TyperGroup.parse_args", stop)
        code, _, err = call("list")
        assert (code, err) == (130, "stopped by Ctrl-C")

    def test_what_is_loaded_before_signals_are_heard(self, here: Path) -> None:
        ours = {name for name in loaded_by("import fedsim.cli.main") if name.startswith("fedsim")}
        rest = {"fedsim", "fedsim.cli", "fedsim.errors", "fedsim.signals", "fedsim.streams"}
        assert ours == rest | {f"fedsim.cli.{name}" for name in ("main", "session", "streams")}
        assert not {"typer", "rich", "click"} & loaded_by("import fedsim.cli.main")

    def test_an_objective_may_have_processes_of_its_own(
        self, here: Path, user_module: UserModule
    ) -> None:
        """``multiprocessing.Pool`` ends its workers with SIGTERM."""
        objective = (
            "import multiprocessing\n"
            "with multiprocessing.get_context('fork').Pool(2) as pool:\n"
            "    return -pool.map(abs, [point['x'] - .3])[0]"
        )
        done = run_fedsim("run", users(user_module, objective))
        assert done.returncode == 0, done.stderr
        assert "KeyboardInterrupt" not in done.stderr + done.stdout
