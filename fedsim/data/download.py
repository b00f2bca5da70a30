"""Downloads a data set's file from its original address; keeps it only if it is intact."""

from __future__ import annotations

import hashlib
import http.client
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from urllib import request
from urllib.error import HTTPError, URLError

from fedsim.data.catalogue import DataFile
from fedsim.errors import DownloadError
from fedsim.files import sync
from fedsim.systemerrors import cannot_write

CHUNK = 1 << 16


def download(
    file: DataFile,
    path: Path,
    advance: Callable[[int], object],
    *,
    timeout: float = 30.0,
    deadline: float = 3600.0,
) -> None:
    """Download a file, check its size and checksum, and move it to ``path``.

    ``path`` does not change until the whole file has arrived and is checked, nor after Ctrl-C.

    Args:
        file: a file with a ``url``.
        path: the target; missing folders are created.
        advance: called with the number of bytes in each chunk received.
        timeout: seconds to wait for a connection, and for each chunk.
        deadline: seconds that the whole download may take.

    Raises:
        DownloadError: if the server cannot be reached, fails, or sends another file.
        RunFolderError: if the file cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as stream:
            for chunk in _checked(file, timeout, deadline):
                stream.write(chunk)
                advance(len(chunk))
            stream.flush()
            sync(stream.fileno())
        temporary.replace(path)
    except OSError as error:
        raise cannot_write(path, error, "fetch it again") from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _checked(file: DataFile, timeout: float, deadline: float) -> Iterator[bytes]:
    """Yield a file's content as it arrives; raises DownloadError if size or checksum is wrong."""
    digest, size = hashlib.sha256(), 0
    for chunk in _received(file, timeout, deadline):
        size += len(chunk)
        if size > file.size:
            raise _failure(file, f"is longer than the {file.size:,} bytes expected")
        digest.update(chunk)
        yield chunk
    if size < file.size:
        raise _failure(file, f"ended after {size:,} of {file.size:,} bytes")
    if digest.hexdigest() != file.sha256:
        found = f"expected SHA-256 {file.sha256}, got {digest.hexdigest()}"
        raise _failure(file, f"is not the expected file: {found}")


def _received(file: DataFile, timeout: float, deadline: float) -> Iterator[bytes]:
    """Yield what the server sends; raises DownloadError if it cannot be reached or fails."""
    end = time.monotonic() + deadline
    agent = {"User-Agent": f"fedsim/{metadata.version('fedsim')}"}
    wanted = request.Request(str(file.url), headers=agent)
    try:
        with _opener().open(wanted, timeout=timeout) as response:
            # Unlike read, read1 does not wait for a full chunk: the deadline holds on slow servers.
            while chunk := response.read1(CHUNK):
                if time.monotonic() > end:
                    raise _failure(file, f"did not finish within {deadline:g} s")
                yield chunk
    except (OSError, http.client.HTTPException) as error:
        raise _failure(file, _explain(error, timeout)) from error


def _opener() -> request.OpenerDirector:
    """Return an opener of http and https only: urllib's own also reads ftp and local files."""
    opener = request.OpenerDirector()
    for handler in (
        request.ProxyHandler(),
        request.UnknownHandler(),
        request.HTTPHandler(),
        request.HTTPSHandler(),
        request.HTTPRedirectHandler(),
        request.HTTPDefaultErrorHandler(),
        request.HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    return opener


def _explain(error: Exception, timeout: float) -> str:
    if isinstance(error, HTTPError):
        error.close()
        return f"the server answers {error.code} {error.reason}"
    reason = error.reason if isinstance(error, URLError) else error
    if isinstance(reason, TimeoutError):
        return f"no answer within {timeout:g} s"
    if isinstance(reason, socket.gaierror):
        return f"the server's name cannot be resolved ({reason.strerror}); check the network"
    return f"cannot be read: {reason or type(reason).__name__}"


def _failure(file: DataFile, what: str) -> DownloadError:
    return DownloadError(
        f"{file.url}: {what}; try again later, or get {file.name} elsewhere and put it into the "
        "data set's folder (fedsim verifies its checksum)"
    )
