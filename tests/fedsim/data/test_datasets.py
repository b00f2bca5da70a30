"""The catalogue is right, and a set is found only if it is intact."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

from fedsim.cli.main import run_command
from fedsim.data.catalogue import DATA_SETS, DataFile, DataSet
from fedsim.data.datasets import data_folder, inspect, locate, named_folder
from fedsim.errors import ConfigError, MissingDataError


def data_file(name: str, content: bytes, url: str | None = None) -> DataFile:
    return DataFile(name, len(content), hashlib.sha256(content).hexdigest(), "numbers", url)


TOY = DataSet(
    "toy",
    "a toy",
    "CC0 [sic]",
    "the attic",
    (data_file("first.npz", b"first"), data_file("second.mat", b"second", "http://127.0.0.1:9/x")),
    (data_file("extra.json", b"extra"),),
)
MADE = DataSet("made", "made", "none", "the cellar", (data_file("made.npz", b"made"),))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the set ``toy``, in ``tmp_path``; only ``toy`` and ``made`` are known."""
    for module in ("fedsim.data.datasets", "fedsim.data.catalogue"):
        monkeypatch.setattr(f"{module}.DATA_SETS", {"toy": TOY, "made": MADE})
    monkeypatch.delenv("FEDSIM_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "toy").mkdir()
    return tmp_path / "toy"


class TestCatalogue:
    def test_every_entry_is_whole(self) -> None:
        for name, data_set in DATA_SETS.items():
            assert data_set.name == name
            assert all((data_set.summary, data_set.licence, data_set.origin, data_set.files))
            files = (*data_set.files, *data_set.extras)
            assert len({file.name for file in files}) == len(files)
            for file in files:
                assert Path(file.name).name == file.name
                assert re.fullmatch("[0-9a-f]{64}", file.sha256), file.name
                assert file.size > 0
                assert file.contents
                assert file.url is None or file.url.startswith("https://")

    def test_no_two_files_share_a_checksum(self) -> None:
        sets = DATA_SETS.values()
        found = [file.sha256 for one in sets for file in (*one.files, *one.extras)]
        assert len(set(found)) == len(found) == 12

    @pytest.mark.parametrize("name", DATA_SETS)
    def test_the_real_files_are_the_known_ones(self, name: str, data_dir: Path) -> None:
        if not (data_dir / name).is_dir():
            pytest.skip(f"needs the data set {name}")
        data_set = DATA_SETS[name]
        assert locate(name, data_dir).parent == data_dir / name
        for file in (*data_set.files, *data_set.extras):
            found = inspect(data_dir / name / file.name, file)
            assert found.state != "damaged", found.problem


class TestLocate:
    def test_the_preferred_file_comes_first(self, home: Path) -> None:
        (home / "second.mat").write_bytes(b"second")
        assert locate("toy", home.parent) == home / "second.mat"
        (home / "first.npz").write_bytes(b"first")
        assert locate("toy", home.parent) == home / "first.npz"

    def test_extras_are_not_the_set(self, home: Path) -> None:
        (home / "extra.json").write_bytes(b"extra")
        with pytest.raises(MissingDataError):
            locate("toy", home.parent)

    def test_a_missing_set_says_both_ways_to_get_it(self, home: Path) -> None:
        with pytest.raises(MissingDataError) as caught:
            locate("toy", None)
        said = str(caught.value)
        assert str(home.parent / "cache" / "fedsim" / "data" / "toy") in said
        assert "first.npz or second.mat" in said
        assert "download it with `fedsim data fetch toy`" in said
        assert "data_dir (--data DIR) or the variable FEDSIM_DATA" in said
        assert caught.value.exit_code == 2

    def test_the_command_downloads_to_where_the_set_was_sought(self, home: Path) -> None:
        with pytest.raises(MissingDataError, match="fetch toy --data '/no where'`"):
            locate("toy", Path("/no where"))

    def test_a_set_that_cannot_be_downloaded_does_not_say_it_can(self, home: Path) -> None:
        with pytest.raises(MissingDataError) as caught:
            locate("made", None)
        assert "`fedsim data fetch made` shows where to get it" in str(caught.value)
        assert "download" not in str(caught.value)

    @pytest.mark.parametrize("content", [b"wrong", b"fir", b""])
    def test_a_damaged_file_is_refused(self, home: Path, content: bytes) -> None:
        (home / "first.npz").write_bytes(content)
        (home / "second.mat").write_bytes(b"second")
        with pytest.raises(ConfigError) as caught:
            locate("toy", home.parent)
        said = str(caught.value)
        assert said.startswith(f"{home / 'first.npz'}: expected 5 bytes with SHA-256 a7937b64b8")
        assert f"got {len(content)} bytes" in said
        assert hashlib.sha256(content).hexdigest() in said
        assert "remove it and get it again" in said
        assert caught.value.exit_code == 2

    def test_what_cannot_be_read_is_named(self, home: Path) -> None:
        (home / "first.npz").mkdir()
        with pytest.raises(ConfigError, match=r"first\.npz: cannot be read: Is a directory"):
            locate("toy", home.parent)

    def test_a_file_in_place_of_the_folder_holds_no_set(self, home: Path) -> None:
        (home.parent / "made").touch()
        with pytest.raises(MissingDataError):
            locate("made", home.parent)

    def test_an_unknown_name_tells_the_nearest(self, home: Path) -> None:
        with pytest.raises(ConfigError, match="unknown data set 'tony'; did you mean 'toy'"):
            locate("tony", None)


class TestFolders:
    def test_the_option_goes_before_the_variable(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FEDSIM_DATA", "/variable")
        assert named_folder("/option") == Path("/option")
        assert named_folder(None) == Path("/variable")
        monkeypatch.setenv("FEDSIM_DATA", "")
        assert named_folder(None) is None

    def test_relative_names_are_resolved_at_once(self, here: Path) -> None:
        assert named_folder("data") == here / "data"

    def test_the_cache_is_the_default(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert data_folder(Path("given")) == Path("given")
        monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
        assert data_folder(None) == Path("/caches/fedsim/data")
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.setenv("HOME", "/people/ada")
        assert data_folder(None) == Path("/people/ada/.cache/fedsim/data")


class TestList:
    @pytest.fixture
    def listed(self, home: Path) -> Path:
        """A folder with one good, one damaged and one absent file of ``toy``; ``made`` damaged."""
        (home / "second.mat").write_bytes(b"second")
        (home / "extra.json").write_bytes(b"damaged")
        (home.parent / "made").mkdir()
        (home.parent / "made" / "made.npz").write_bytes(b"maid")
        return home.parent

    @pytest.mark.parametrize("command", [["data"], ["data", "list"]])
    def test_the_table(
        self, listed: Path, command: list[str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run_command([*command, "--data", str(listed)]) == 0
        out = " ".join(capsys.readouterr().out.split())
        assert "toy a toy present, 6 bytes licence: CC0 [sic] origin: the attic" in out
        assert "file: first.npz (5 bytes, absent)" in out
        assert "file: second.mat (6 bytes, present, can be downloaded)" in out
        assert "extra: extra.json (5 bytes, damaged)" in out
        assert "damaged, 4 bytes" in out
        for path in (listed / "toy" / "extra.json", listed / "made" / "made.npz"):
            assert f"{path}: expected" in out

    def test_json(self, listed: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run_command(["data", "--json", "--data", str(listed)]) == 0
        record = json.loads(capsys.readouterr().out)
        assert record["folder"] == str(listed)
        toy, made = record["data_sets"]
        assert (toy["state"], toy["path"]) == ("present", str(listed / "toy" / "second.mat"))
        assert (toy["licence"], toy["origin"], toy["size"]) == ("CC0 [sic]", "the attic", 6)
        states = [(file["name"], file["role"], file["state"]) for file in toy["files"]]
        assert states == [
            ("first.npz", "file", "absent"),
            ("second.mat", "file", "present"),
            ("extra.json", "extra", "damaged"),
        ]
        assert (made["state"], made["path"]) == ("damaged", str(listed / "made" / "made.npz"))
        assert "remove it" in made["files"][0]["problem"]

    def test_the_variable_names_the_folder(
        self, listed: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("FEDSIM_DATA", str(listed))
        assert run_command(["data", "list", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["data_sets"][0]["state"] == "present"

    def test_a_tilde_is_the_home_folder(
        self, listed: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Shells do not expand it in a quoted variable, nor in ``--data=~/x``."""
        monkeypatch.setenv("HOME", str(listed.parent))
        told = f"~/{listed.name}"
        assert run_command(["data", "list", "--json", f"--data={told}"]) == 0
        monkeypatch.setenv("FEDSIM_DATA", told)
        assert run_command(["data", "list", "--json"]) == 0
        for line in capsys.readouterr().out.splitlines():
            assert json.loads(line)["folder"] == str(listed)

    def test_a_cache_that_is_not_there_is_empty(
        self, home: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run_command(["data", "--json"]) == 0
        record = json.loads(capsys.readouterr().out)
        assert record["folder"] == str(home.parent / "cache" / "fedsim" / "data")
        toy, made = record["data_sets"]
        assert (toy["state"], toy["path"], toy["size"]) == ("absent", None, 5)
        assert made["state"] == "absent"

    def test_a_folder_that_is_not_one_is_an_error(
        self, home: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run_command(["data", "--data", str(home / "nowhere")]) == 2
        assert f"--data: expected the folder of the data sets, got {home / 'nowhere'}" in (
            capsys.readouterr().err
        )

    def test_options_before_a_command_are_not_lost_in_silence(
        self, home: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run_command(["data", "--data", str(home), "fetch", "toy"]) == 2
        assert "give them after `fedsim data fetch`" in capsys.readouterr().err
