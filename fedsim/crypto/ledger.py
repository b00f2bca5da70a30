"""What a client has helped to decrypt: it must not help twice, nor for two sets of members."""

from __future__ import annotations

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

    def repeated(self, asked: bytes) -> Payload | None:
        """Return the answer to a request that was answered already, or None for the first one.

        Args:
            asked: identifies the request: a digest of all that it asks for.

        Raises:
            RunError: if it is another request about the same upload.
        """
        if self._answer is None:
            return None
        if asked != self._asked:
            raise RunError(
                f"agent {self._agent} refuses: it has helped to decrypt the sum of upload "
                f"{self.uploads - 1} already, and was asked for another one"
            )
        return self._answer

    def check_members(self, t: int, members: tuple[AgentId, ...]) -> None:
        """Check that a decryption in round ``t`` is of the one set of members.

        Raises:
            RunError: if it is of another set, or of an earlier round.
        """
        if self._decrypted is None:
            return
        last, before = self._decrypted
        if t < last or (t == last and members != before):
            raise RunError(
                f"agent {self._agent} refuses to decrypt a sum of {_told(members)} in round {t}: "
                f"it has decrypted one of {_told(before)} in round {last}"
            )

    def answered(
        self,
        asked: bytes,
        t: int,
        members: tuple[AgentId, ...],
        answer: Payload,
        decryptions: int,
    ) -> Payload:
        """Keep an answer and return it."""
        self._asked, self._answer = asked, answer
        self._decrypted = (t, members)
        self.decryptions += decryptions
        return answer


def _told(members: tuple[AgentId, ...]) -> str:
    shown = ", ".join(map(str, members[:8])) + (", ..." if len(members) > 8 else "")
    return f"{len(members)} agents ({shown})"
