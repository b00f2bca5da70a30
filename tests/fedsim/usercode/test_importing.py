"""A process imports what a run read, whatever it knew before, and is then as it was."""

from __future__ import annotations

import importlib
import pickle
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fedsim.errors import ConfigError
from fedsim.usercode.importing import activate, imports_kept, refuse_while_importing
from fedsim.usercode.sources import UserCode


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    path, finders, modules = list(sys.path), list(sys.meta_path), set(sys.modules)
    sys.meta_path[:] = [finder for finder in finders if type(finder).__name__ != "_Finder"]
    yield
    sys.path[:], sys.meta_path[:] = path, finders
    for name in set(sys.modules) - modules:
        if name.startswith(("obj_", "pack", "loose", "start_", "go_")):  # this module's own
            del sys.modules[name]


def write(folder: Path, **texts: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text, "utf-8")


def load(name: str, *folders: Path) -> Any:
    activate(UserCode.named_in(f"{name}:X", folders))
    return importlib.import_module(name)


def test_each_folder_gives_its_own_module_of_one_name(here: Path) -> None:
    write(here / "a", obj_1="from obj_2 import value", obj_2="value = 'a'")
    write(here / "b", obj_1="from obj_2 import value", obj_2="value = 'b'")
    assert [load("obj_1", here / f).value for f in "abba"] == ["a", "b", "b", "a"]


@pytest.mark.parametrize("edited", ["obj_1", "obj_2"])
def test_an_edited_module_is_new_and_so_is_what_imports_it(here: Path, edited: str) -> None:
    write(here, obj_1="from obj_2 import value\nmark = 1", obj_2="value = 1")
    first = load("obj_1", here)
    write(here, **{edited: f"{(here / edited).with_suffix('.py').read_text()}\nvalue = 2"})
    second = load("obj_1", here)
    assert (first.value, second.value) == (1, 2)


def test_an_unchanged_module_is_not_run_twice(here: Path) -> None:
    write(here, obj_1="box = []")
    assert load("obj_1", here) is load("obj_1", here)


def test_what_is_imported_late_is_what_was_read(here: Path) -> None:
    """Also after an edit: a run does not change while it runs."""
    write(here, obj_1="def late():\n    import obj_2\n    return obj_2.value", obj_2="value = 1")
    module = load("obj_1", here)
    write(here, obj_2="value = 2")
    assert module.late() == 1


def test_a_process_without_the_files_imports_what_was_read(here: Path) -> None:
    write(here / "a", obj_1="from obj_2 import value", obj_2="value = 3")
    code = pickle.loads(pickle.dumps(UserCode.named_in("obj_1:X", [here / "a"])))
    for path in (here / "a").iterdir():
        path.unlink()
    activate(code)
    assert importlib.import_module("obj_1").value == 3


def test_packages_with_and_without_init(here: Path) -> None:
    write(here / "a" / "pack", __init__="from . import one", one="from loose.two import value")
    write(here / "a" / "loose", two="value = 'a'")
    write(here / "b" / "pack", __init__="from . import one", one="value = 'b'")
    assert load("pack", here / "a").one.value == "a"
    assert sys.modules["loose"].__path__ == [str(here / "a" / "loose")]
    assert load("pack", here / "b").one.value == "b"


def test_modules_know_their_files_and_sources(here: Path) -> None:
    write(here, obj_1="class X:\n    def f(self):\n        return 1\n")
    module = load("obj_1", here)
    assert module.__file__ == str(here / "obj_1.py")
    import inspect

    assert inspect.getsource(module.X).startswith("class X:")
    assert pickle.loads(pickle.dumps(module.X)) is module.X


class TestKept:
    def test_a_module_of_the_callers_comes_back_and_the_runs_goes(
        self, here: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(here / "mine", obj_1="value = 'mine'", obj_2="value = 'mine'")
        write(here / "run", obj_1="from obj_2 import value", obj_2="value = 'run'")
        monkeypatch.syspath_prepend(here / "mine")
        mine, path = importlib.import_module("obj_1"), list(sys.path)
        with imports_kept():
            assert load("obj_1", here / "run").value == "run"
        assert sys.modules["obj_1"] is mine
        assert "obj_2" not in sys.modules
        assert sys.path == path
        assert importlib.import_module("obj_2").value == "mine"

    def test_a_module_that_is_unchanged_since_this_process_started_is_the_callers(
        self, here: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(here, obj_1="value = 1")
        monkeypatch.syspath_prepend(here)
        mine = importlib.import_module("obj_1")
        monkeypatch.setattr("fedsim.usercode.importing._process_start", lambda: time.time() + 1)
        with imports_kept():
            assert load("obj_1", here) is mine
        assert sys.modules["obj_1"] is mine

    def test_a_second_run_of_the_same_code_does_not_import_it_again(self, here: Path) -> None:
        write(here, obj_1="import obj_2", obj_2="box = []")
        found = []
        for _ in range(2):
            with imports_kept():
                found.append(load("obj_1", here))
            assert "obj_1" not in sys.modules
        assert found[0] is found[1]
        write(here, obj_2="box = [1]")
        with imports_kept():
            assert load("obj_1", here).obj_2.box == [1]

    def test_what_others_put_on_the_path_stays(self, here: Path) -> None:
        write(here, obj_1="import sys\nsys.path.append('/put/by/the/user')")
        before = list(sys.path)
        with imports_kept():
            load("obj_1", here)
            assert sys.path[0] == str(here)
        assert sys.path == [*before, "/put/by/the/user"]

    def test_two_runs_at_once_may_share_modules_but_not_their_names(self, here: Path) -> None:
        write(here / "a", obj_1="value = 'a'")
        write(here / "b", obj_1="value = 'b'", obj_2="value = 2")
        with imports_kept(), imports_kept():
            first = load("obj_1", here / "a")
            assert load("obj_1", here / "a") is first
            assert load("obj_2", here / "b").value == 2
            with pytest.raises(ConfigError, match="another run in this process uses other modules"):
                load("obj_1", here / "b")
            assert sys.modules["obj_1"] is first
        with imports_kept():
            assert load("obj_1", here / "b").value == "b"


class TestWhileImporting:
    def test_a_module_that_is_just_being_imported_is_refused(self, here: Path) -> None:
        """Its importer would wait for a run that waits for the import."""
        text = (
            "from fedsim.usercode.sources import UserCode\n"
            "from fedsim.usercode.importing import activate\n"
            f"activate(UserCode.named_in('obj_1:X', [{str(here)!r}]))\n"
        )
        write(here, obj_1=text)
        sys.path.insert(0, str(here))
        importlib.invalidate_caches()
        with pytest.raises(
            ConfigError, match=r"obj_1\.py starts a run while .* under `if __name__"
        ):
            importlib.import_module("obj_1")

    def test_another_thread_may_import_it_meanwhile(self, here: Path) -> None:
        write(here, obj_1="import sys\nsys.modules['start_1'].set()\nsys.modules['go_1'].wait(60)")
        started, go = threading.Event(), threading.Event()
        sys.modules |= {"start_1": started, "go_1": go}  # type: ignore[dict-item]
        thread = threading.Thread(target=load, args=("obj_1", here))
        thread.start()
        assert started.wait(60)
        activate(UserCode.named_in("obj_1:X", [here]))
        go.set()
        thread.join(60)
        assert not thread.is_alive()

    def test_a_run_that_multiprocessing_starts_again_is_refused(self) -> None:
        code = compile("refuse()", "/somewhere/script.py", "exec")
        exec(code, {"__name__": "__main__", "refuse": refuse_while_importing})
        with pytest.raises(ConfigError, match=r"^/somewhere/script\.py starts a run while it is"):
            exec(code, {"__name__": "__mp_main__", "refuse": refuse_while_importing})


def test_the_start_of_this_process_is_known() -> None:
    from fedsim.usercode.importing import _process_start

    if not Path("/proc/self/stat").exists():
        assert _process_start() == -float("inf")
        return
    assert time.time() - 86_400 < _process_start() < time.time() - time.process_time()
