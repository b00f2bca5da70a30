"""Runs every command and example in README and docs."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from fedsim.cli.main import run_command

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

# Commands that take minutes are shown whole and tried as a dry run.
LONG = re.compile(r"fedsim run (synthetic-fts|synthetic-privacy|fts-synthetic)")

# Targets are tried as a dry run; environment variables may precede make.
MAKE = re.compile(r"^((?:\w+=\S+ )*)make\b")

# In the smaller form, commands that need no shell run in this process: most of what small runs
# take is the start of a process.
PLAIN = re.compile(r"^(?:cd (\S+) && )?fedsim ([^|&;<>$`]*)$")

# Options that make the other commands take seconds, by a pattern of them; later values win.
SMALLER = {
    r"^fedsim compare .*--rounds": " --rounds 1-2",
    r"fedsim( -q)? run\b": " --set rounds=2 --set scenario.agents=4",
    "--seeds 0-9": " --seeds 0-1",
    r"fedsim crypto bench": " --members 3 --support 8 --rounds 1",
    r"fedsim crypto collusion": " --members 3 --support 8 --trials 2",
    "--backend ray": " --dry-run",  # tests/actors run on Ray
}


def blocks(page: Path, language: str) -> list[str]:
    """Return the fenced blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def commands(page: Path) -> list[str]:
    """Return the shell commands that a page shows, without comments."""
    lines = "\n".join(blocks(page, "sh")).replace("\\\n", " ").splitlines()
    return [line.split(" #")[0].strip() for line in lines if line.strip()]


@pytest.fixture
def readers_folder(tmp_path: Path) -> Path:
    """Return a folder with the files that a reader's clone has and the commands need."""
    shutil.copytree(ROOT / "docs" / "examples", tmp_path / "docs" / "examples")
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path}
    return subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture
def modules_kept() -> Iterator[None]:
    """Forget what a command imported from the reader's folder."""
    path, known = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    folder = ROOT / "docs" / "examples"
    for file in folder.glob("*.py"):
        if file.stem not in known:
            sys.modules.pop(file.stem, None)


def smaller(command: str) -> str:
    return command + "".join(more for part, more in SMALLER.items() if re.search(part, command))


def cases() -> list[Any]:
    """Return all pages, smaller and as shown; slow is what takes long."""
    found = []
    for page in PAGES:
        for size in ("smaller", "as-shown"):
            slow = size == "as-shown" or page.parent.name == "reproduction"
            marks = [pytest.mark.slow] if slow else []
            found.append(pytest.param(page, size, id=f"{size}-{page.name}", marks=marks))
    return found


@pytest.mark.heavy
@pytest.mark.parametrize(("page", "size"), cases())
@pytest.mark.usefixtures("modules_kept")
def test_commands_run(
    page: Path,
    readers_folder: Path,
    size: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = commands(page)
    if size == "smaller":  # test_cli.py looks at the picture of a run
        monkeypatch.setattr("fedsim.cli.closing._picture", lambda run: (None, ""))
    for command in shown:
        if command.startswith("pip install"):
            continue  # test_packaging.py builds and reads the wheel
        command = MAKE.sub(r"\1make --dry-run", command)
        if size == "smaller":
            command = smaller(command)
        if LONG.search(command):
            command += " --dry-run"
        plain = PLAIN.match(command) if size == "smaller" else None
        if plain is not None:
            monkeypatch.chdir(readers_folder / (plain[1] or ""))
            code = run_command(shlex.split(plain[2]))
            assert code == 0, f"{command}\n{capsys.readouterr()}"
            continue
        done = shell(command, readers_folder)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    if page.name == "README.md":
        assert {"make run", "make test"} <= set(shown)
        own = [part for part in SMALLER if "crypto" not in part]  # those are in encryption.md
        assert all(any(re.search(part, command) for command in shown) for part in own)
        assert (readers_folder / "regret.png").stat().st_size > 10_000


def test_some_page_shows_every_command_that_is_made_smaller() -> None:
    shown = [command for page in PAGES for command in commands(page)]
    assert all(any(re.search(part, command) for command in shown) for part in SMALLER)


def test_the_readme_shows_the_tested_example() -> None:
    code = next(block for block in blocks(PAGES[0], "python") if "class Branin" in block)
    example = (ROOT / "docs" / "examples" / "branin.py").read_text()
    assert code.strip() in example
    shown = blocks(PAGES[0], "yaml")[0]
    assert shown.strip() in (ROOT / "docs" / "examples" / "branin.yaml").read_text()


def test_extending_shows_the_tested_example_which_keeps_to_the_protocol(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    space, resources, method, aggregator, checks = blocks(ROOT / "docs" / "extending.md", "python")
    assert method in (ROOT / "docs" / "examples" / "hill.py").read_text()
    assert aggregator in (ROOT / "docs" / "examples" / "vote.py").read_text()
    exec(space, {})
    exec(resources, {})
    monkeypatch.syspath_prepend(ROOT / "docs" / "examples")
    exec(checks, {})
    from fedsim.testing import check_method, check_scenario
    from fedsim.usercode.loading import load_class

    check_method(load_class("hill:HillClimbing"))
    classifiers = load_class("classifier:Classifiers")()
    check_scenario(classifiers, points=1)
    check_method(load_class("hill:HillClimbing"), scenario=classifiers, rounds=2)


@pytest.mark.heavy
def test_the_readmes_python_runs(readers_folder: Path) -> None:
    code = next(block for block in blocks(PAGES[0], "python") if "fedsim.run" in block)
    (readers_folder / "docs" / "examples" / "script.py").write_text(code)
    done = shell("python script.py", readers_folder / "docs" / "examples")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 9  # the best, a header, rounds 0 to 5, the dtype


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"
        for target in re.findall(r"`(tests/[\w/.]+)`", page.read_text()):
            assert (ROOT / target).exists(), f"{page.name}: {target}"


def test_the_readmes_class_may_be_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fedsim

    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"fedsim": fedsim, "__name__": "a_notebook"}
    exec(next(block for block in blocks(PAGES[0], "python") if "class Branin" in block), names)
    (given,) = blocks(PAGES[0], "py")
    exec(given.replace('"rounds": 5', '"rounds": 1, "backend": "serial"'), names)
    assert set(names["run"].observations["variant"]) == {"beta=1", "beta=2"}


def test_the_configurations_that_the_page_shows_are_valid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fedsim.config.experiment import prepare
    from fedsim.yamltext import parse_yaml

    monkeypatch.chdir(tmp_path)
    shown = blocks(ROOT / "docs" / "configuration.md", "yaml")
    found = [prepare(parse_yaml(text)) for text in shown if "scenario:" in text]
    sweep = max(found, key=lambda experiment: len(experiment.variants))
    assert (len(sweep.variants), sweep.config.seeds) == (18, [0, 1, 2, 3, 4])
    assert all(len(text.splitlines()) <= 20 for text in shown)


def test_every_configuration_key_is_documented() -> None:
    from fedsim.config.model import Config, DeadlinesConfig, PrivacyConfig
    from fedsim.resources import Resources

    page = (ROOT / "docs" / "configuration.md").read_text()
    # `section.one`, `.two` in a row stands for both.
    told = re.findall(r"^\| (`.*?`) \|", page, re.MULTILINE)
    documented = {name for row in told for name in _names(row)}
    keys = {key for key in Config.model_fields if key not in ("scenario", "method", "privacy")}
    keys -= {"deadlines"}
    keys |= {f"privacy.{key}" for key in PrivacyConfig.model_fields}
    keys |= {f"deadlines.{key}" for key in DeadlinesConfig.model_fields}
    keys |= {f"resources.{field.name}" for field in fields(Resources)}
    assert keys - documented == set()


def _names(row: str) -> list[str]:
    """Return the keys of a row's first column: the short ones belong to the first's section."""
    first, *others = re.findall(r"`(.*?)`", row)
    return [first, *(first.rpartition(".")[0] + other for other in others)]
