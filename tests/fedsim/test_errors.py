"""Errors say what to do, and have the right class."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from fedsim import errors
from fedsim.errors import (
    ConfigError,
    UserCodeError,
    closest,
    listed,
    nearest,
    of_option,
    of_run,
)


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("ConfigError", 2),
        ("MissingDataError", 2),
        ("RunFolderError", 2),
        ("DownloadError", 3),
        ("RunError", 3),
        ("ObjectiveError", 3),
        ("UserCodeError", 3),
        ("DiskError", 3),
        ("LostRecordError", 3),
        ("ResourceError", 4),
        ("Interrupted", 130),
    ],
)
def test_exit_codes(kind: str, code: int) -> None:
    assert getattr(errors, kind).exit_code == code


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("bata", "; did you mean 'beta'?"),
        ("BETA", "; did you mean 'beta'?"),
        ("zzz", "; valid names: beta, gamma"),
        ("", "; valid"),
    ],
)
def test_nearest(name: str, said: str) -> None:
    assert nearest(name, ["gamma", "beta"]).startswith(said)


@pytest.mark.parametrize(
    ("name", "valid", "meant"),
    [
        ("raunds", "rounds", "rounds"),
        ("n_rounds", "rounds", "rounds"),
        ("detla", "delta", "delta"),
        ("plx", "pld", "pld"),
        ("eps", "epsilon", "epsilon"),
        ("noise", "noise_variance", "noise_variance"),
        ("agents", "variants", None),
        ("iterations", "deadlines", None),
        ("parameters", "variants", None),
        ("no", "variants", None),
        ("", "rounds", None),
    ],
)
def test_only_a_slip_or_a_start_is_close(name: str, valid: str, meant: str | None) -> None:
    assert closest(name, [valid]) == meant


@pytest.mark.parametrize(
    ("names", "told"),
    [(["a", "b"], "a, b"), (["a=1, b=2", "a=1, b=3"], "'a=1, b=2', 'a=1, b=3'"), ([], "")],
)
def test_names_with_commas_are_told_apart(names: list[str], told: str) -> None:
    assert listed(names) == told
    assert nearest("zzz", names) == (f"; valid names: {told}" if names else "")


def test_an_argument_is_told_as_the_caller_has_it() -> None:
    error = of_option("--data", ConfigError("data_dir: expected a folder: got x"))
    for told in (error, pickle.loads(pickle.dumps(error))):
        assert str(told) == "data_dir: expected a folder: got x"
        assert told.of_command_line == "--data: expected a folder: got x"
    assert ConfigError("rounds: x").of_command_line == "rounds: x"


def test_nearest_of_nothing_says_nothing() -> None:
    assert nearest("x", []) == ""


def test_errors_of_a_run_know_its_folder() -> None:
    with pytest.raises(UserCodeError) as caught, of_run(Path("runs/x-1")):
        raise UserCodeError("it failed", "its traceback")
    assert caught.value.folder == Path("runs/x-1")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (copy.folder, copy.summary) == (Path("runs/x-1"), "it failed")
    assert UserCodeError("another").folder is None
