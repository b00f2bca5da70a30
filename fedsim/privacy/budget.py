"""A limit on the privacy loss, checked before every release."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedsim.errors import require
from fedsim.privacy.accountants import Accountant, privacy_loss
from fedsim.privacy.ledger import Accounting, Ledger
from fedsim.protocol import PrivacyEvent

_TOGETHER = 64  # releases


@dataclass(frozen=True)
class Budget:
    """The largest privacy loss that a run may reach.

    The check comes before the release and depends only on public costs, so a refusal reveals
    nothing about the data. In long runs of equal releases, 64 are checked together, as far as the
    budget allows all of them.

    Attributes:
        epsilon: the limit, above 0.
        delta: in (0, 1).
        accountant: measures the loss.
        accounting: which multiplier is charged.

    Raises:
        ConfigError: if epsilon or delta is outside its range.
    """

    epsilon: float
    delta: float
    accountant: Accountant
    accounting: Accounting = "paper"

    def __post_init__(self) -> None:
        require(0 < self.epsilon < math.inf, "epsilon", "a finite number above 0", self.epsilon)
        require(0 < self.delta < 1, "delta", "a number above 0 and below 1", self.delta)

    def allows(self, ledger: Ledger, event: PrivacyEvent) -> bool:
        """Return whether the loss including ``event`` stays within the budget."""
        after = ledger.charge(event)
        count = dict(after.counts)[event]
        if count > _TOGETHER and self._meets(after.charge(event, -count % _TOGETHER)):
            return True
        return self._meets(after)

    def _meets(self, ledger: Ledger) -> bool:
        loss = privacy_loss(ledger, self.delta, self.accountant, self.accounting)
        return loss.epsilon <= self.epsilon
