"""Runs of a user's modules: the files that they name, whatever this process imported before."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import fedsim
from fedsim.errors import ConfigError, Interrupted, ObjectiveError
from fedsim.running.jobs import Job, Listener
from tests.util.small import small
from tests.util.stopping import Stop

SHIFT = """
from fedsim.space import Parameter, Space
from helper_1 import BASE

class Shift:
    direction, agents = "maximize", 2
    space = Space((Parameter("x", 0, 1),))

    def objective(self, agent):
        return lambda point, rng: BASE + point["x"]
"""


def write(folder: Path, base: float, text: str = SHIFT) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "shift_1.py").write_text(text)
    (folder / "helper_1.py").write_text(f"BASE = {base}\n")
    return folder


def config(**changes: Any) -> dict[str, Any]:
    return small(scenario={"name": "shift_1:Shift"}, **changes)


def level(run: Any) -> int:
    return int(run.observations["y"].min())


def test_each_folder_runs_its_own_module(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = [write(here / "a", 10), write(here / "b", 50)]
    found = []
    for folder in (*folders, folders[0]):
        monkeypatch.chdir(folder)
        found.append(level(fedsim.run(config())))
    assert found == [10, 50, 10]
    assert "shift_1" not in sys.modules


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.heavy)])
def test_an_edit_counts_from_the_next_run_on(here: Path, jobs: int) -> None:
    """Also an edit of what the module imports, and never within a run."""
    write(here, 10)

    class Edits(Listener):
        def started(self, job: Job) -> None:
            write(here, 90)

    run = fedsim.run(config(seeds=[0, 1, 2]), listener=Edits(), jobs=jobs)
    assert run.observations.groupby("seed")["y"].min().astype(int).tolist() == [10, 10, 10]
    assert level(fedsim.run(config())) == 90


def test_modules_are_looked_for_beside_the_configuration_first(here: Path) -> None:
    write(here / "conf", 10)
    write(here, 50)
    (here / "only_here_1.py").write_text(SHIFT.replace("helper_1", "helper_1"))
    (here / "conf" / "run.yaml").write_text(yaml.safe_dump(config()))
    run = fedsim.run("conf/run.yaml")
    assert level(run) == 10
    origin = yaml.safe_load((run.folder / "origin.yaml").read_text())
    assert origin["import_from"] == [str(here / "conf"), str(here)]
    other = fedsim.run("conf/run.yaml", overrides=["scenario.name=only_here_1:Shift"])
    assert level(other) == 10  # its helper, too, is found beside the configuration


class TestTheRecord:
    def test_it_holds_the_modules_and_their_hashes(self, here: Path) -> None:
        write(here, 10)
        run = fedsim.run(config())
        kept = {path.name: path.read_text() for path in (run.folder / "code").iterdir()}
        assert kept == {"shift_1.py": SHIFT, "helper_1.py": "BASE = 10\n"}
        origin = yaml.safe_load((run.folder / "origin.yaml").read_text())
        assert origin["modules"].keys() == {"shift_1", "helper_1"}
        assert all(len(digest) == 64 for digest in origin["modules"].values())

    def test_without_modules_there_is_no_code(self, here: Path) -> None:
        run = fedsim.run(small())
        assert not (run.folder / "code").exists()
        assert yaml.safe_load((run.folder / "origin.yaml").read_text())["modules"] == {}

    def test_a_resume_with_the_same_code_is_silent(self, here: Path) -> None:
        write(here, 10)
        with pytest.raises(Interrupted):
            fedsim.run(config(), listener=Stop(1))
        run = fedsim.resume("runs/small-1")
        assert run.runs[0].folder.manifest()["warnings"] == []
        assert not (run.folder / "code-2").exists()

    def test_a_resume_with_other_code_says_so(self, here: Path) -> None:
        write(here, 10)
        with pytest.raises(Interrupted):
            fedsim.run(config(seeds=[0, 1]), listener=Stop(1))
        write(here, 20)
        told: list[str] = []

        class Hears(Listener):
            def planned(self, folder: Path, jobs: Any, plan: str) -> None:
                told.append(plan)

        run = fedsim.resume("runs/small-1", listener=Hears())
        assert "; resumed with other code: helper_1 changed" in told[0]
        for one in run.runs:
            (warning,) = one.folder.manifest()["warnings"]
            assert warning.startswith("resumed with other code: helper_1 changed since the run")
            assert "code-2/" in warning
        assert (run.folder / "code-2" / "helper_1.py").read_text() == "BASE = 20\n"
        assert (run.folder / "code" / "helper_1.py").read_text() == "BASE = 10\n"

    def test_a_run_folder_of_an_earlier_version_resumes(self, here: Path) -> None:
        write(here, 10)
        with pytest.raises(Interrupted):
            fedsim.run(config(), listener=Stop(1))
        origin = yaml.safe_dump({"import_from": str(here), "data_dir": None})
        Path("runs/small-1/origin.yaml").write_text(origin)
        assert fedsim.resume("runs/small-1").runs[0].status == "done"


NAMES_ITSELF = """
import fedsim
from fedsim.space import Parameter, Space

class Mine:
    space, direction, agents = Space((Parameter("x", 0, 1),)), "maximize", 2

    def objective(self, agent):
        return lambda point, rng: point["x"]

fedsim.run({"scenario": "itself_1:Mine", "method": "random-search", "rounds": 1,
            "backend": "serial"})
"""


class TestARunDuringImport:
    MESSAGE = r'itself_1 starts a run while .* put the call under `if __name__ == "__main__":`'

    def test_a_script_that_names_itself_is_told_what_to_do(self, here: Path) -> None:
        (here / "itself_1.py").write_text(NAMES_ITSELF)
        with pytest.raises(ConfigError, match=self.MESSAGE):
            fedsim.run(small(scenario={"name": "itself_1:Mine"}))
        assert not Path("runs").exists()

    @pytest.mark.heavy
    def test_also_when_it_is_the_script(self, here: Path) -> None:
        (here / "itself_1.py").write_text(NAMES_ITSELF)
        command = [sys.executable, "itself_1.py"]
        found = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert found.returncode == 1
        assert "starts a run while it is being imported" in found.stderr.splitlines()[-1]

    @pytest.mark.heavy
    def test_a_process_that_multiprocessing_spawns_is_told_too(self, here: Path) -> None:
        script = NAMES_ITSELF.replace("import fedsim\n", "import fedsim, multiprocessing\n", 1)
        child = "multiprocessing.get_context('spawn').Process(target=print)"
        start = f"child = {child}\nchild.start()\nchild.join()\nprint(child.exitcode)\n"
        (here / "script_1.py").write_text(
            script.replace("fedsim.run(", "if __name__ != '__main__':\n  fedsim.run(")
            + f"if __name__ == '__main__':\n    {start.replace(chr(10), chr(10) + '    ')}"
        )
        command = [sys.executable, "script_1.py"]
        found = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert found.stdout.split() == ["1"]
        assert "script_1.py starts a run while it is being imported" in found.stderr


def test_a_very_long_message_is_shortened_everywhere(here: Path) -> None:
    text = SHIFT.replace(
        'return lambda point, rng: BASE + point["x"]',
        'def f(point, rng): raise ValueError("x" * 5_000_000)\n        return f',
    )
    write(here, 0, text)
    with pytest.raises(ObjectiveError, match=r"ValueError .*: xxx.*4,998,000 char"):
        fedsim.run(config())
    folder = Path("runs/small-1/seed-0")
    assert (folder / "manifest.json").stat().st_size < 50_000
    fedsim.run(config(on_error="skip"))
    folder = Path("runs/small-2/seed-0")
    assert (folder / "timings.jsonl").stat().st_size < 50_000


def test_a_tilde_is_the_users_folder(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(here / "home"))
    run = fedsim.run(small(), out="~/runs/one")
    assert run.folder == here / "home" / "runs" / "one"
    assert fedsim.resume("~/runs/one").folder == run.folder
    assert fedsim.load("~/runs/one").folder == run.folder
    assert not Path("~").exists()


def test_a_folder_that_is_gone_is_named(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = here / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(ConfigError, match="the current folder was removed"):
        fedsim.run(small())
