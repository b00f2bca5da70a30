"""The toy method on a secure sum, with everything written down that Ray sends between processes.

``tapped:Tapped`` in configurations (``tapped:Noted``: vectors and secrets only). In each actor
that builds it, all that the actor sends from then on (arguments, results, objects put into the
store) goes to a file in ``folder``; the clients' vectors and secrets go to others, for comparison.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import ray
from ray._private.serialization import SerializationContext

from fedsim.crypto import Encryption, ckks
from fedsim.protocol import AgentProgram, Context, Payload, Request
from fedsim.rng import Keys
from fedsim.space import Array
from tests.actors.summing import Summing, SummingAgent


class Noted(Summing):
    """As Summing, but its agents write their vectors and secrets down."""

    def __init__(self, context: Context, *, folder: str, encryption: Encryption) -> None:
        super().__init__(context, encryption=encryption)
        self.folder = Path(folder)

    def agent(self, agent: int) -> AgentProgram:
        """Return an agent that writes its vectors and secrets down."""
        return TappedAgent(self, agent)


class Tapped(Noted):
    """As Noted, but its processes are tapped."""

    def __init__(self, context: Context, *, folder: str, encryption: Encryption) -> None:
        super().__init__(context, folder=folder, encryption=encryption)
        if ray.get_runtime_context().get_actor_id() is not None and not is_tapped():
            tap(self.folder)


class TappedAgent(SummingAgent):
    """Writes its vectors, and its client's secrets, into files."""

    def __init__(self, method: Noted, agent: int) -> None:
        super().__init__(method.context, method.scheme.client(agent))
        self.folder = method.folder

    def reply(self, request: Request, rng: Keys) -> Payload:
        """Answer, and write down the client's secret."""
        answer = super().reply(request, rng)
        session: Any = getattr(self.client, "_session", None)
        secret = getattr(session, "secret", None)
        if secret is not None:
            note(self.folder, "secret", np.asarray(secret).tobytes())
            ternary = np.fft.ifft(secret) * np.exp(-1j * np.pi * np.arange(4096) / 8192)
            whole = np.rint(np.concatenate([ternary.real, ternary.imag]))
            note(self.folder, "secret", whole.astype(np.int64).tobytes())
            note(self.folder, "secret", whole.astype(np.int8).tobytes())
        return answer

    def _vector(self, payload: Payload, rng: Keys) -> Array:
        vector = super()._vector(payload, rng)
        note(self.folder, "vector", vector.tobytes())
        return vector


def note(folder: Path, kind: str, data: bytes) -> None:
    """Write bytes into a new file."""
    (folder / f"{kind}-{uuid.uuid4().hex}").write_bytes(data)


def is_tapped() -> bool:
    """Return whether this process is."""
    return SerializationContext.serialize.__name__ == "written"


def tap(folder: Path) -> None:
    """Write down what Ray serialises in this process from now on, and the key that CKKS makes."""
    serialize, make_key = SerializationContext.serialize, ckks.make_key

    def written(self: Any, value: Any) -> Any:
        found = serialize(self, value)
        data = value if isinstance(value, bytes) else bytes(found.to_bytes())
        with (folder / f"sent-{os.getpid()}").open("ab") as file:
            file.write(data)
        return found

    SerializationContext.serialize = written  # type: ignore[method-assign]
    ckks.make_key = noted_keys(folder, make_key)


def noted_keys(folder: Path, make_key: Callable[[], ckks.Key]) -> Callable[[], ckks.Key]:
    """Return ``make_key``, but what it makes is written down, apart from what is public."""

    def made() -> ckks.Key:
        key = make_key()
        public = key.public
        pieces = (key.secret[i : i + 64] for i in range(0, len(key.secret) - 64, 1024))
        note(folder, "secret", b"".join(piece for piece in pieces if piece not in public))
        return key

    return made
