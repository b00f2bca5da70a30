"""The address of an existing cluster: found, reached, and asked whether it lets this process in."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from fedsim.errors import ResourceError
from fedsim.resources import is_host_and_port

REACH_SECONDS = 10.0
"""How long a machine may take to accept a connection."""

# Ray itself retries for a long time, prints warnings that nobody can stop, and ends this process if
# a token is missing. Another process can be ended. No public function of Ray does so little.
_ASK = "import sys; from ray._raylet import GcsClient; GcsClient(address=sys.argv[1])"


def reachable(address: str, deadline: float) -> str:
    """Return the cluster's address as HOST:PORT, once it is known that it can be joined.

    Args:
        address: HOST:PORT or ``auto``.
        deadline: seconds to wait for the cluster's answer.

    Raises:
        ResourceError: if there is no such cluster, or it does not let this process in.
    """
    if address == "auto":
        address = _only_one()
    _check_port(address, min(deadline, REACH_SECONDS))
    _check_answer(address, deadline)
    return address


def _only_one() -> str:
    """Return the address that the environment names, or of the only cluster on this machine.

    Raises:
        ResourceError: if there is none, or more than one.
    """
    named = os.environ.get("RAY_ADDRESS", "")
    if named not in ("", "auto"):
        return named
    from ray._private.services import find_gcs_addresses

    find_gcs_addresses.cache_clear()  # type: ignore[attr-defined]
    found = sorted(find_gcs_addresses())
    if not found:
        raise ResourceError(
            "address: no Ray cluster runs on this machine; start one with `ray start`, or give "
            "HOST:PORT"
        )
    if len(found) > 1:
        raise ResourceError(
            f"address: auto needs one Ray cluster on this machine, found {len(found)}; give one of "
            f"them: {', '.join(found)}"
        )
    return str(found[0])


def _check_port(address: str, seconds: float) -> None:
    """Refuse an address where nothing listens; Ray itself would try for two minutes."""
    host, _, port = address.rpartition(":")
    if not is_host_and_port(address):  # the environment's; a configuration's is checked before
        raise ResourceError(
            f"RAY_ADDRESS: expected HOST:PORT, got {address!r}; Ray Client (ray://) cannot be "
            "used: run fedsim on a machine of the cluster, where the run folder is kept"
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), seconds).close()
    except (OSError, OverflowError) as error:
        raise ResourceError(
            f"the Ray cluster at {address} cannot be reached: {error}; check with `ray status` on "
            "its head node that it is running"
        ) from None


def _check_answer(address: str, deadline: float) -> None:
    """Refuse a cluster that does not answer, or wants another token."""
    sends_token = os.environ.get("RAY_AUTH_MODE", "").lower() == "token"
    token = _token()
    if sends_token and token is None:
        raise _refused(address, sends_token, token)
    try:
        asked = subprocess.run(
            [sys.executable, "-P", "-c", _ASK, address],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=deadline,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ResourceError(
            f"{address} does not answer as a Ray cluster within {deadline:g} s; deadlines.start "
            "sets the limit"
        ) from None
    if "InvalidAuthToken" in asked.stderr or "AuthenticationError" in asked.stderr:
        raise _refused(address, sends_token, token)
    if asked.returncode and "RpcError" in asked.stderr:
        why = asked.stderr.strip().splitlines()[-1]
        raise ResourceError(f"{address} does not answer as a Ray cluster: {why}")


def _token() -> str | None:
    """Return where Ray finds a token, or None."""
    if os.environ.get("RAY_AUTH_TOKEN"):
        return "RAY_AUTH_TOKEN"
    path = Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or Path.home() / ".ray" / "auth_token")
    return str(path) if path.is_file() else None


def _refused(address: str, sends_token: bool, token: str | None) -> ResourceError:
    words = f"the Ray cluster at {address} wants Ray's authentication token"
    if token is None:
        return ResourceError(
            f"{words}, and there is none here: copy ~/.ray/auth_token from its head node, and set "
            "RAY_AUTH_MODE=token in the environment"
        )
    if not sends_token:
        return ResourceError(
            f"{words}; to send the one in {token}, set RAY_AUTH_MODE=token in the environment"
        )
    return ResourceError(
        f"{words}, and refuses the one in {token}: copy ~/.ray/auth_token from its head node"
    )
