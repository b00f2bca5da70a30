"""Releases: how an aggregator is run, and what its releases cost.

An aggregator's requests are not entries of the journal: their number may depend on faults, since
agents that lost their keys are asked again. The release itself must not depend on faults.
"""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Protocol

import numpy as np

from fedsim.errors import ProtocolError, RunError, RunFolderError
from fedsim.files import arrays_under, load_arrays, save_arrays
from fedsim.payloads import frozen
from fedsim.privacy.budget import Budget
from fedsim.protocol import (
    AgentId,
    Aggregator,
    Cost,
    PrivacyEvent,
    Release,
    Replies,
    Request,
    Respondents,
    Uncharged,
)
from fedsim.record.entries import ReleaseEntry
from fedsim.record.lines import Appender
from fedsim.record.observer import Observer, ReleaseMade
from fedsim.record.position import Position
from fedsim.record.runfolder import RunFolder
from fedsim.rng import SERVER, Keys, Randomness, SystemKeys
from fedsim.usercode.calling import expect, offers, user_code

MOST_LOSSES = 100
"""How often agents may have lost their keys during one release before the run fails."""


class AskAgain(Protocol):
    """Asks agents within a call of the server program."""

    def __call__(
        self, t: int, request: Request, to: Sequence[AgentId] | None, number: int
    ) -> Replies:
        """Ask ``request``.

        Args:
            t: the round.
            request: what is asked.
            to: the agents; None for all.
            number: how often this kind was asked before; 0 for the server program's own request.
        """
        ...


class AskingFleet:
    """The agents as an aggregator sees them: it may only ask.

    Its requests are counted by kind. The count restarts when keys were lost, so that repeated
    requests have the same randomness; so has the server program's own request, if it is repeated.
    See :class:`fedsim.protocol.Respondents`.

    Args:
        members: all agents, ascending.
        ask: sends a request.
        request: the server program's request, if any: the first of its kind.
        replies: the agents' replies to it.
    """

    def __init__(
        self, members: tuple[AgentId, ...], ask: AskAgain, request: Request | None, replies: Replies
    ) -> None:
        self.members = members
        self.request = request
        self._ask = ask
        self._asked = Counter[str]() if request is None else Counter([request.kind])
        self._losses = 0
        self._note(replies)

    def ask(self, t: int, request: Request, *, to: Sequence[AgentId] | None = None) -> Replies:
        """See :meth:`fedsim.protocol.Respondents.ask`."""
        number = 0
        if request is not self.request:
            number = self._asked[request.kind]
            self._asked[request.kind] += 1
        replies = self._ask(t, request, to, number)
        self._note(replies)
        return replies

    def _note(self, replies: Replies) -> None:
        if any(reply.status == "lost_keys" for reply in replies):
            self._asked.clear()
            self._losses += 1
        if self._losses > MOST_LOSSES:
            raise ProtocolError(
                f"agents had lost their keys {self._losses} times in one release: its aggregator "
                "must make new keys with them before it asks again"
            )


class Releases:
    """Makes the releases of one run: checks budgets, charges the ledger, writes the journal.

    Args:
        position: where the run stands; kept up to date.
        journal: every release is appended to it.
        seed: the run's seed.
        observer: called after every release.
        budget: refuses releases that would exceed it, or None.
        kept: where releases with noise from the operating system are kept; None if all
            randomness comes from the seed.
        run: names the run in kept releases.
    """

    def __init__(
        self,
        position: Position,
        journal: Appender,
        seed: int,
        observer: Observer,
        budget: Budget | None = None,
        kept: RunFolder | None = None,
        run: str = "",
    ) -> None:
        self._position = position
        self._journal = journal
        self._seed = seed
        self._observer = observer
        self._budget = budget
        self._kept = kept
        self._run = run

    def make(self, t: int, replies: Replies, via: Aggregator, fleet: Respondents) -> Release:
        """Return an aggregator's release, without the experimenter's diagnostics.

        Raises:
            RunError: if the aggregator's costs are not what they should be.
            RunFolderError: if the journal has another release at this point.
        """
        start = time.perf_counter()
        cost = _checked_cost(via, t)
        recorded = self._position.next_recorded(ReleaseEntry, t)
        refused = recorded.refused if recorded is not None else not self._allowed(via, cost)
        if refused:
            release = Release(None)
        elif self._kept is not None and cost is not Uncharged.NOT_PRIVATE:
            drawn = recorded is not None
            release = self._kept_release(self._kept, t, replies, via, fleet, cost, drawn)
        else:
            number = self._position.releases_in[max(0, t)]
            keys = Keys(self._seed, SERVER, max(0, t), number)
            release = _aggregate(t, replies, via, fleet, keys, cost)
        empty = release.payload is None and not refused
        entry = ReleaseEntry(t, release.cost, refused, empty, release.experimenter)
        if recorded is None:
            self._journal.append(entry.to_json())
        elif _public(entry) != _public(recorded):
            raise RunFolderError(
                f"journal: expected the release {_public(recorded)}, got {_public(entry)}; the "
                "journal belongs to another configuration or version"
            )
        self._position.take(recorded or entry)
        self._observer(ReleaseMade(t, time.perf_counter() - start))
        return Release(release.payload, release.cost)

    def _allowed(self, via: Aggregator, cost: Cost) -> bool:
        """Return whether the budget allows a release; a function of public costs only.

        What an earlier event covers is refused once an event was refused.

        Raises:
            RunError: if there was no earlier event.
        """
        if cost is Uncharged.ALREADY_PAID:
            if self._position.refused:
                return False
            if not self._position.ledger.releases:
                raise RunError(
                    f"aggregator {type(via).__name__}: expected an event as the cost of its first "
                    "release, got ALREADY_PAID, but nothing was charged before"
                )
        if self._budget is None or isinstance(cost, Uncharged):
            return True
        return self._budget.allows(self._position.ledger, cost)

    def _kept_release(
        self,
        folder: RunFolder,
        t: int,
        replies: Replies,
        via: Aggregator,
        fleet: Respondents,
        cost: Cost,
        drawn: bool,
    ) -> Release:
        """Return a release that is drawn only once and is on disk before it is used.

        Raises:
            RunFolderError: if it was ``drawn``, as the journal says, but is not on disk, or what is
                on disk is of another run.
        """
        path = folder.release_path(self._position.releases)
        name = json.dumps([self._run, ReleaseEntry(t, cost).to_json()])
        if path.exists():
            arrays = load_arrays(path)
            if str(arrays.get("name")) != name:
                raise RunFolderError(
                    f"{path}: expected {name}, got {arrays.get('name')}: it is the release of "
                    "another run; restore the file or config.yaml, or start a new run"
                )
            via.restore(arrays_under("aggregator/", arrays))
            payload = frozen(arrays_under("payload/", arrays), str(path))
            numbers = {n: float(x) for n, x in arrays_under("experimenter/", arrays).items()}
            return Release(payload if arrays["made"] else None, cost, numbers)
        if drawn:
            raise RunFolderError(
                f"{path}: missing: it held the release of round {t}, whose noise cannot be drawn "
                "again, and a second release would cost twice; restore the file, or start a new run"
            )
        release = _aggregate(t, replies, via, fleet, SystemKeys(), cost)
        kept = {f"payload/{n}": a for n, a in (release.payload or {}).items()}
        kept |= {f"experimenter/{n}": np.array(x) for n, x in release.experimenter.items()}
        kept |= {f"aggregator/{n}": a for n, a in via.state().items()}
        made = np.array(release.payload is not None)
        save_arrays(path, {**kept, "made": made, "name": np.array(name)})
        return release


def _checked_cost(via: Aggregator, t: int) -> Cost:
    with user_code(f"aggregator {type(via).__name__} failed in round {t}"):
        cost: object = via.cost(t)
    if isinstance(cost, Uncharged) or offers(cost, PrivacyEvent):
        return cost
    raise RunError(
        f"aggregator {type(via).__name__}: expected a privacy event or "
        f"fedsim.protocol.Uncharged as the cost of a release, got {cost!r}"
    )


def _public(entry: ReleaseEntry) -> str:
    """Return an entry's line without the experimenter's diagnostics."""
    return json.dumps(replace(entry, experimenter={}).to_json())


def _aggregate(
    t: int, replies: Replies, via: Aggregator, fleet: Respondents, rng: Randomness, cost: Cost
) -> Release:
    """Return an aggregator's release, checked; ``cost`` is the announced cost.

    Raises:
        RunError: if the release has another cost.
    """
    words = f"aggregator {type(via).__name__}"
    with user_code(f"{words} failed in round {t}"):
        release = via.aggregate(t, replies, fleet, rng)
    expect(isinstance(release, Release), f"{words}: aggregate()", "a Release", release)
    if release.cost != cost:
        raise RunError(
            f"aggregator {type(via).__name__}: a release in round {t} cost {release.cost}, "
            f"expected the announced {cost}; both must be equal for any data"
        )
    numbers = release.experimenter
    known = isinstance(numbers, Mapping) and all(isinstance(x, Real) for x in numbers.values())
    expect(known, f"{words}: experimenter", "named numbers", numbers)
    return Release(
        None if release.payload is None else frozen(release.payload, words),
        release.cost,
        {n: float(x) for n, x in numbers.items() if math.isfinite(x)},
    )
