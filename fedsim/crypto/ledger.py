"""What a client has helped to decrypt: it must not help twice, nor for two sets of members."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from fedsim.errors import RunError
from fedsim.protocol import AgentId, Payload


class AnswerLedger:
    """A client's answers to requests for decryption.

    A client answers once for every upload. The same request again gets the same bytes: fresh noise
    each time would average out. In one round it helps one set of members only: the difference of
    two sums would be one client's vector.

    Args:
        agent: the client, for errors.
    """

    def __init__(self, agent: AgentId) -> None:
        self._agent = agent
        self._decrypted: tuple[int, tuple[AgentId, ...]] | None = None
        self.new_session()

    def new_session(self) -> None:
        """Forget the answers of the last session; uploads are counted from 0 again."""
        self.uploads = 0
        self.decryptions = 0
        self._asked = b""
        self._answer: Payload | None = None

    def upload(self) -> int:
        """Return the number of a new upload, from 0; what was asked about earlier ones is over."""
        self.uploads += 1
        self._asked, self._answer = b"", None
        return self.uploads - 1

    def once(
        self,
        t: int,
        members: tuple[AgentId, ...],
        sums: Sequence[bytes],
        make: Callable[[], Payload],
    ) -> Payload:
        """Return the answer to a request for decryption, which is made once.

        Args:
            t: the round.
            members: whose sum it is.
            sums: digests of what is to be decrypted, one for each ciphertext.
            make: decrypts; if it raises an error, nothing was decrypted.

        Raises:
            RunError: if something else was decrypted for the same upload, or the last sum was of
                other members in the same round, or of a later round.
        """
        asked = hashlib.sha256(f"{t} {members}".encode() + b"".join(sums)).digest()
        if self._answer is not None:
            if asked != self._asked:
                raise RunError(
                    f"agent {self._agent} refuses: it has helped to decrypt the sum of upload "
                    f"{self.uploads - 1} already, and was asked for another one"
                )
            return self._answer
        self._check_members(t, members)
        answer = make()
        self._asked, self._answer = asked, answer
        self._decrypted = (t, members)
        self.decryptions += len(sums)
        return answer

    def _check_members(self, t: int, members: tuple[AgentId, ...]) -> None:
        if self._decrypted is None:
            return
        last, before = self._decrypted
        if t < last or (t == last and members != before):
            raise RunError(
                f"agent {self._agent} refuses to decrypt a sum of {_told(members)} in round {t}: "
                f"it has decrypted one of {_told(before)} in round {last}"
            )


def _told(members: tuple[AgentId, ...]) -> str:
    shown = ", ".join(map(str, members[:8])) + (", ..." if len(members) > 8 else "")
    return f"{len(members)} agents ({shown})"
