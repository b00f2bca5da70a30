"""Downloads from a local server that fails in every way a server can."""

from __future__ import annotations

import errno
import hashlib
import os
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from fedsim.cli.main import run_command
from fedsim.data.catalogue import DataFile, DataSet
from fedsim.data.download import download
from fedsim.errors import DiskError, DownloadError, RunFolderError

CONTENT = bytes(range(256)) * 1000
SHA256 = hashlib.sha256(CONTENT).hexdigest()
PATIENT = 20.0  # seconds to wait for an immediate answer


class Server(BaseHTTPRequestHandler):
    """Answers by path; ``/drip`` and ``/hang`` end when the test sets ``over``."""

    over: threading.Event
    agents: list[str]

    def log_message(self, format: str, *args: object) -> None:
        """Do nothing."""

    def do_GET(self) -> None:
        self.agents.append(self.headers["User-Agent"])
        getattr(self, self.path.strip("/").replace("-", "_"), self.unknown)()

    def answer(self, body: bytes, announced: int | None = None, code: int = 200) -> None:
        self.send_response(code)
        if announced is not None:
            self.send_header("Content-Length", str(announced))
        self.end_headers()
        self.wfile.write(body)

    def unknown(self) -> None:
        self.send_error(404)

    def good(self) -> None:
        self.answer(CONTENT, len(CONTENT))

    def wrong(self) -> None:
        self.answer(CONTENT[::-1], len(CONTENT))

    def truncated(self) -> None:
        self.answer(CONTENT[:70_000], len(CONTENT))

    def longer(self) -> None:
        self.answer(CONTENT + b"!")

    def moved(self) -> None:
        self.redirect("/good")

    def round_and_round(self) -> None:
        self.redirect("/round-and-round")

    def to_ftp(self) -> None:
        self.redirect("ftp://127.0.0.1/good")

    def to_a_file(self) -> None:
        self.redirect(Path(__file__).as_uri())

    def redirect(self, to: str) -> None:
        self.send_response(302)
        self.send_header("Location", to)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def nonsense(self) -> None:
        self.wfile.write(b"this is not HTTP\r\n\r\n")

    def bad_chunks(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n")

    def hang(self) -> None:
        self.answer(CONTENT[:10], len(CONTENT))
        self.over.wait(PATIENT)

    def drip(self) -> None:
        self.answer(b"", len(CONTENT))
        while not self.over.wait(0.01):
            self.wfile.write(b"x")


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")


@pytest.fixture
def address() -> Iterator[str]:
    """The address of a server that is up during the test."""
    Server.over, Server.agents = threading.Event(), []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # clients hang up
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    Server.over.set()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "toy" / "toy.npz"


def toy_file(url: str) -> DataFile:
    return DataFile("toy.npz", len(CONTENT), SHA256, "numbers", url)


def refused(url: str, path: Path, *, timeout: float = PATIENT, deadline: float = PATIENT) -> str:
    """Download a file that must fail; return the message without address and advice."""
    with pytest.raises(DownloadError) as caught:
        download(toy_file(url), path, lambda _: None, timeout=timeout, deadline=deadline)
    assert caught.value.exit_code == 3
    assert list(path.parent.iterdir()) == []
    said = str(caught.value)
    assert said.startswith(f"{url}: ")
    assert "; try again later, or get toy.npz elsewhere" in said
    return said.removeprefix(f"{url}: ").partition("; try again")[0]


class TestDownload:
    @pytest.mark.parametrize("what", ["good", "moved"])
    def test_a_good_file_arrives(self, address: str, path: Path, what: str) -> None:
        parts: list[int] = []
        download(toy_file(f"{address}/{what}"), path, parts.append)
        assert path.read_bytes() == CONTENT
        assert [other.name for other in path.parent.iterdir()] == ["toy.npz"]
        assert sum(parts) == len(CONTENT)
        assert len(parts) > 1
        assert all(agent.startswith("fedsim/") for agent in Server.agents)

    def test_others_may_read_it(self, address: str, path: Path) -> None:
        umask = os.umask(0o022)
        try:
            download(toy_file(f"{address}/good"), path, lambda _: None)
        finally:
            os.umask(umask)
        assert path.stat().st_mode & 0o777 == 0o644

    @pytest.mark.parametrize(
        ("what", "said"),
        [
            ("wrong", f"is not the expected file: expected SHA-256 {SHA256}, got "),
            ("unheard-of", "the server answers 404 Not Found"),
            ("truncated", "ended after 70,000 of 256,000 bytes"),
            ("longer", "is longer than the 256,000 bytes expected"),
            ("round-and-round", "the server answers 302 "),
            ("to-ftp", "cannot be read: unknown url type: ftp"),
            ("to-a-file", "the server answers 302 Found - Redirection to url"),
            ("nonsense", "cannot be read: "),
            ("bad-chunks", "cannot be read: "),
        ],
    )
    def test_a_bad_answer_is_refused(self, address: str, path: Path, what: str, said: str) -> None:
        assert refused(f"{address}/{what}", path).startswith(said)

    def test_a_server_that_hangs(self, address: str, path: Path) -> None:
        assert refused(f"{address}/hang", path, timeout=0.2) == "no answer within 0.2 s"

    def test_a_server_that_drips(self, address: str, path: Path) -> None:
        assert refused(f"{address}/drip", path, deadline=0.2) == "did not finish within 0.2 s"

    def test_a_server_that_accepts_but_says_nothing(self, path: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            url = f"http://127.0.0.1:{silent.getsockname()[1]}/good"
            assert refused(url, path, timeout=0.2) == "no answer within 0.2 s"

    def test_nobody_listens(self, path: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        assert "Connection refused" in refused(f"http://127.0.0.1:{port}/good", path)

    def test_no_network(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def unresolved(*_: object, **__: object) -> None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

        monkeypatch.setattr(socket, "getaddrinfo", unresolved)
        said = refused("http://host.invalid/x", path)
        assert "name cannot be resolved (Name or service not known); check the network" in said

    @pytest.mark.parametrize("url", ["ftp://127.0.0.1/good", Path(__file__).as_uri(), "data:,x"])
    def test_only_http(self, path: Path, url: str) -> None:
        assert refused(url, path).startswith("cannot be read: unknown url type")

    def test_until_it_is_right_the_old_file_stays(self, address: str, path: Path) -> None:
        path.parent.mkdir(parents=True)
        path.write_bytes(b"old")
        with pytest.raises(DownloadError):
            download(toy_file(f"{address}/wrong"), path, lambda _: None)
        assert path.read_bytes() == b"old"
        download(toy_file(f"{address}/good"), path, lambda _: None)
        assert path.read_bytes() == CONTENT

    def test_ctrl_c_leaves_nothing(self, address: str, path: Path) -> None:
        def stop(_: int) -> None:
            assert len(list(path.parent.iterdir())) == 1
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            download(toy_file(f"{address}/good"), path, stop)
        assert list(path.parent.iterdir()) == []

    def test_a_full_disk(self, address: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(_: int) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(DiskError, match="No space left on device; make room, then fetch"):
            download(toy_file(f"{address}/good"), path, lambda _: None)
        assert list(path.parent.iterdir()) == []

    def test_a_folder_that_cannot_be_made(self, address: str, path: Path) -> None:
        path.parent.parent.write_text("not a folder")
        with pytest.raises(RunFolderError, match="cannot be written: Not a directory") as caught:
            download(toy_file(f"{address}/good"), path, lambda _: None)
        assert caught.value.exit_code == 2


Fetch = Callable[..., tuple[int, str, str]]


class TestFetch:
    @pytest.fixture
    def fetch(
        self,
        address: str,
        path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> Fetch:
        """Fetch a set whose second file comes from one of the server's paths."""
        monkeypatch.delenv("FEDSIM_DATA", raising=False)
        ready = DataFile("ready.npz", 5, hashlib.sha256(b"ready").hexdigest(), "numbers")

        def call(
            what: str = "good", name: str = "toy", folder: Path | None = path.parents[1]
        ) -> tuple[int, str, str]:
            sets = {
                "toy": DataSet("toy", "", "", "", (ready, toy_file(f"{address}/{what}"))),
                "made": DataSet("made", "", "", "https://origin.example", (ready,)),
            }
            monkeypatch.setattr("fedsim.data.datasets.DATA_SETS", sets)
            option = [] if folder is None else ["--data", str(folder)]
            code = run_command(["data", "fetch", name, *option])
            return code, *capsys.readouterr()

        return call

    def test_into_a_folder_that_is_not_there_yet(self, fetch: Fetch, path: Path) -> None:
        code, out, err = fetch()
        assert (code, path.read_bytes()) == (0, CONTENT)
        assert out == f"toy downloaded and checksum verified: {path}\n"
        (line,) = err.splitlines()  # no bar: this is not a terminal
        assert line.startswith("downloading http://127.0.0.1:")
        assert line.endswith("/good (256.0 kB)")

    def test_a_terminal_shows_a_bar(self, fetch: Fetch, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FORCE_COLOR", "1")
        code, out, err = fetch()
        assert code == 0
        assert "256.0/256.0 kB" in err
        assert out.startswith("toy downloaded and checksum verified")

    @pytest.mark.parametrize("variable", ["FEDSIM_DATA", "XDG_CACHE_HOME"])
    def test_into_the_default_folder(
        self, fetch: Fetch, tmp_path: Path, variable: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(variable, str(tmp_path))
        below = {"FEDSIM_DATA": "", "XDG_CACHE_HOME": "fedsim/data"}[variable]
        assert fetch(folder=None)[0] == 0
        assert (tmp_path / below / "toy" / "toy.npz").read_bytes() == CONTENT

    @pytest.mark.parametrize(("name", "content"), [("toy.npz", CONTENT), ("ready.npz", b"ready")])
    def test_what_is_there_is_verified_and_kept(
        self, fetch: Fetch, path: Path, name: str, content: bytes
    ) -> None:
        path.parent.mkdir(parents=True)
        (path.parent / name).write_bytes(content)
        code, out, err = fetch("unheard-of")
        assert (code, out, err) == (0, f"toy already exists: {path.parent / name}\n", "")
        assert Server.agents == []

    def test_a_damaged_file_is_replaced(self, fetch: Fetch, path: Path) -> None:
        path.parent.mkdir(parents=True)
        path.write_bytes(b"damaged")
        code, _, err = fetch()
        assert (code, path.read_bytes()) == (0, CONTENT)
        assert f"replacing {path}: it is damaged" in err

    def test_another_damaged_file_is_in_the_way(self, fetch: Fetch, path: Path) -> None:
        path.parent.mkdir(parents=True)
        (path.parent / "ready.npz").write_bytes(b"damaged")
        code, _, err = fetch()
        assert code == 2
        assert "ready.npz: expected 5 bytes" in err
        assert "remove it and get it again" in err
        assert Server.agents == []

    def test_a_wrong_file(self, fetch: Fetch, path: Path) -> None:
        code, out, err = fetch("wrong")
        assert (code, out) == (3, "")
        assert "is not the expected file" in err
        assert "Traceback" not in err
        assert not path.exists()

    def test_a_set_that_cannot_be_downloaded(self, fetch: Fetch, path: Path) -> None:
        code, _, err = fetch(name="made")
        assert code == 2
        assert "https://origin.example" in err
        assert f"{path.parents[1] / 'made' / 'ready.npz'} (numbers; 5 bytes, SHA-256" in err
        assert "--data DIR or the variable FEDSIM_DATA" in err

    def test_an_unknown_set(self, fetch: Fetch) -> None:
        code, _, err = fetch(name="tony")
        assert code == 2
        assert "unknown data set 'tony'; did you mean 'toy'" in err
