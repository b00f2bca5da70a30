"""Which folders are those of seeds, of variants and of runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedsim.record.layout import is_seed, run_folder_of, seed_folders


def make(root: Path, *files: str) -> None:
    for name in files:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (("seed-0/config.yaml",), True),
        (("seed-12/journal.jsonl",), True),
        (("seed-0/state/checkpoint.npz",), False),  # none of the files that make it known
        (("seed-0.bak/config.yaml",), False),
        (("seed-0/config.yaml", "seed-0/origin.yaml"), False),  # a run of this name
    ],
)
def test_a_seed_is_known_by_its_name_and_files(
    tmp_path: Path, files: tuple[str, ...], expected: bool
) -> None:
    make(tmp_path, *files)
    assert is_seed(tmp_path / files[0].partition("/")[0]) is expected


def test_seeds_of_variants_are_the_runs_and_those_of_other_runs_are_not(tmp_path: Path) -> None:
    make(tmp_path, "origin.yaml", "a/seed-0/config.yaml", "b/seed-1/config.yaml")
    make(tmp_path, "inner/origin.yaml", "inner/seed-2/config.yaml")
    found = seed_folders(tmp_path)
    assert found == [tmp_path / "a/seed-0", tmp_path / "b/seed-1"]
    assert [run_folder_of(one) for one in found] == [tmp_path, tmp_path]
    alone = tmp_path / "inner/seed-2"
    assert seed_folders(alone.parent) == [alone]
    assert run_folder_of(alone) == alone.parent
    assert seed_folders(tmp_path / "nowhere") == []
