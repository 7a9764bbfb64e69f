"""Leases, renewal and fences with one rule taken away each. Clocks decide most of them, so seeded runs must see them.

Source: chain specification, section 7 (leases, restarts): what may be used until when, and by whose clock.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from holdall.explorer.mutants.mutant import Change, Mutant, Seeded
from holdall.leases import peers
from holdall.leases.book import LeaseBook
from holdall.leases.fences import Fences
from holdall.leases.holder import DEADLINE_TIMER, Deadlines
from holdall.leases.listing import AliveOk, Entry
from holdall.leases.peers import Peers
from holdall.leases.records import LeaseRecord
from holdall.leases.renewal import Loss, Renewals
from holdall.leases.silence import Silence
from holdall.leases.table import Leases
from holdall.machine.contract import SetTimer
from holdall.protocols.hooks import Effects
from holdall.protocols.vocabulary import ClaimId

# ---------------------------------------------------------------- the holder's side

_heard = Renewals.heard
_life_ms: Callable[[Any, int], int] = vars(Deadlines)["_life_ms"]


def _from_receipt(self: Any, node: str, message: Any, out: Effects) -> list[Loss]:
    """A lease's time runs from when the answer comes, not from when the renewal was sent."""
    lost = _heard(self, node, message, out)
    self._count += 1
    deadlines: Deadlines = self._deadlines
    answered: dict[tuple[str, int], int] = vars(deadlines)["_answered"]
    for ttl_ms in sorted(self._ttls_at(node)):
        answered[node, ttl_ms] = self._count
        out.append(SetTimer(f"{DEADLINE_TIMER}{node}/{ttl_ms}/{self._count}", _life_ms(deadlines, ttl_ms)))
    return lost


def _never_over(self: Any, timer: str) -> None:
    """Deadlines mean nothing."""
    del self, timer


def _answered_is_later(self: Any, timer: str) -> tuple[str, int] | None:
    """A deadline counts only when a renewal sent after it was answered: the comparison is turned round."""
    node, ttl_text, count_text = timer.removeprefix(DEADLINE_TIMER).rsplit("/", 2)
    base = self._answered.get((node, int(ttl_text)))
    return (node, int(ttl_text)) if base is not None and base > int(count_text) else None


def _whole_life(self: Any, ttl_ms: int) -> int:
    """No margin for clocks that run apart, and one ttl more."""
    del self
    return 2 * ttl_ms


_answered = Deadlines.answered


def _all_answered(self: Any, node: str, ttls_ms: Iterable[int], count: int) -> None:
    """An answer to an earlier renewal counts for the newest one."""
    _answered(self, node, ttls_ms, max(self._sent_ms.get(node, ()), default=count))


def _unasked(self: Any, claim: ClaimId) -> bool:
    """A host that has come up again goes on at once with what it was granted before."""
    del self, claim
    return True


# ---------------------------------------------------------------- the node's side


def _half_life(_: Silence, peer: str, ttl_ms: int, out: Effects, *, passed_ms: int = 0) -> None:
    """A silent peer's leases end after half their ttl by the node's clock."""
    out.append(SetTimer(f"book/silent/{peer}/{ttl_ms}", max(0, ttl_ms // 2 - passed_ms)))


def _never_silent(self: Any, timer: str) -> tuple[ClaimId, ...]:
    """Nobody's silence ends a lease."""
    del self, timer
    return ()


def _always_grants(self: Any) -> bool:
    """A node that lost everything grants at once."""
    del self
    return True


def _unsaved_lease(self: Any, record: LeaseRecord, out: Effects) -> None:
    """A lease is given without being saved."""
    del out
    self.know(record)


def _kept_after_end(self: Any, record: LeaseRecord, out: Effects) -> None:
    """The record of a lease that is over is not forgotten."""
    del out
    del self[record.claim, record.attempt]
    self._attempts[record.claim].remove(record.attempt)
    if not self._attempts[record.claim]:
        del self._attempts[record.claim]


def _fences_from_nought(self: Any, saved: Any, boot: Any) -> None:
    """After a restart fences begin again from where they stood when the node was new."""
    del saved
    self._epoch = boot.epoch


def _fence_for_all(self: Any, out: Effects) -> int:
    """A unit gets the fence that was given last."""
    del out
    self.last = max(1, self.last)
    return int(self.last)


def _digests_unread(self: Any, node: str, message: Any, epoch: int, compare: Any) -> Any:
    """Every renewal is answered as if both lists were the same."""
    del self, node, compare
    return AliveOk(message.count, epoch, same=True)


def _ends_all_unlisted(
    claim: ClaimId, known: Entry, listed: Mapping[ClaimId, Entry], newest: ClaimId | None
) -> bool:
    """A list ends every claim that it does not name, also those that began after it was written."""
    del newest
    entry = listed.get(claim)
    return entry is None or known.attempt < entry.attempt


def _keeps_all(
    self: Any, claim: ClaimId, attempt: int, keep: Mapping[str, int], out: Effects, named: Any = ()
) -> None:
    """Units that a claim gives back stay with it."""
    del self, claim, attempt, keep, out, named


_BELIEF = ("set aside", "exclusion", "fence")
"""A client goes on with units that its node has for somebody else: whichever is seen first."""

_CUTS: Mapping[str, Any] = {
    "duration": 1500,
    "leases": True,
    "faults": {"split": 8, "oneway": 8, "stall": 4, "pause": 4, "loss": 0.05, "reorder": 0.1},
    "workload": {"load": "saturated", "pools": 2, "nodes": 2, "k": 1, "hold": 100},
}
"""Holds longer than a ttl, while hosts do not hear each other."""

_TIGHT: Mapping[str, Any] = {
    "ttl": 12,
    "duration": 1500,
    "leases": True,
    "faults": {"split": 12, "oneway": 16, "reorder": 0.4},
    "workload": {"load": "saturated", "pools": 2, "nodes": 2, "k": 1, "hold": 25},
}
"""A message and its answer take longer than the pause between two renewals."""

_FALLS: Mapping[str, Any] = {
    "duration": 2000,
    "leases": True,
    "faults": {"crash": 10, "restart": 10, "wipe": 4, "departure": 0.05},
    "workload": {"load": "saturated", "pools": 4, "nodes": 2, "k": 2, "hold": 40},
}
"""Hosts come up again with what they saved, or with nothing."""


_SILENT_FALLS: Mapping[str, Any] = {
    "ttl": 15,
    "duration": 1500,
    "leases": True,
    "faults": {"split": 12, "oneway": 12, "restart": 20, "crash": 20},
    "workload": {"load": "saturated", "pools": 2, "nodes": 2, "k": 1, "hold": 60},
}
"""Hosts come up again after they were not heard for longer than a lease."""

_LATE_LISTS: Mapping[str, Any] = {
    "ttl": 12,
    "duration": 1500,
    "leases": True,
    "faults": {"restart": 12, "crash": 12, "loss": 0.1, "reorder": 0.5},
    "workload": {"load": "saturated", "pools": 2, "nodes": 2, "k": 1, "hold": 10},
}
"""A host's next claim begins while a list of before is under way."""


def _leases(
    name: str,
    rule: str,
    change: tuple[Any, str, Callable[..., Any]],
    setup: Mapping[str, Any],
    found_as: tuple[str, ...] = _BELIEF,
) -> Mutant:
    owner, method, value = change
    seeded = Seeded(changes=(Change(owner, method, value),), setup=setup, driver="bare")
    return Mutant(name=name, protocol="chain", rule=rule, found_as=found_as, seeded=seeded)


LEASE_MUTANTS = (
    _leases(
        "lease-from-receipt",
        "a lease counts from the sending of the renewal that was answered",
        (Renewals, "heard", _from_receipt),
        _CUTS,
    ),
    _leases(
        "lease-no-deadline",
        "a holder stops when its node may think that it is gone",
        (Deadlines, "fired", _never_over),
        _CUTS,
    ),
    _leases(
        "lease-deadline-turned",
        "a deadline counts when nothing sent later was answered",
        (Deadlines, "fired", _answered_is_later),
        _CUTS,
    ),
    _leases(
        "lease-no-margin",
        "the holder's time is shorter than the node's",
        (Deadlines, "_life_ms", _whole_life),
        _CUTS,
    ),
    _leases(
        "lease-any-answer",
        "an answer confirms the renewal that it answers, no later one",
        (Deadlines, "answered", _all_answered),
        _TIGHT,
    ),
    _leases(
        "lease-half-life",
        "a node waits for a silent peer's whole ttl by the slowest clock",
        (Silence, "_arm", _half_life),
        _CUTS,
    ),
    _leases(
        "lease-never-silent",
        "the leases of a node that is gone end",
        (Silence, "fired", _never_silent),
        _FALLS,
        ("starvation",),
    ),
    _leases(
        "lease-no-quarantine",
        "after losing everything a node waits for the leases of before",
        (LeaseBook, "may_grant", _always_grants),
        _FALLS,
    ),
    _leases(
        "lease-unsaved",
        "a lease is saved before anybody hears of it",
        (Leases, "keep", _unsaved_lease),
        _FALLS,
    ),
    _leases(
        "lease-unforgotten",
        "the record of a lease that is over is forgotten",
        (Leases, "end", _kept_after_end),
        _FALLS,
    ),
    _leases(
        "fence-again",
        "fences go on above all that may have been given",
        (Fences, "recover", _fences_from_nought),
        _FALLS,
        ("fence",),
    ),
    _leases(
        "fence-shared",
        "every unit that is given gets a higher fence",
        (Fences, "following", _fence_for_all),
        _FALLS,
        ("fence",),
    ),
    _leases(
        "lease-unconfirmed",
        "who has come up again goes on only when its nodes have confirmed what it has",
        (Renewals, "may_go_on", _unasked),
        _SILENT_FALLS,
    ),
    _leases(
        "list-of-before",
        "a list says nothing about claims that began after it was written",
        (peers, "_is_over", _ends_all_unlisted),
        _LATE_LISTS,
    ),
    _leases("list-unread", "lists that differ are compared", (Peers, "alive", _digests_unread), _FALLS),
    _leases(
        "give-back-kept",
        "units come back when their claim is over",
        (LeaseBook, "give_back", _keeps_all),
        _FALLS,
        ("refused",),
    ),
)
"""All of one node's book, its peers' lists and the holders' deadlines."""
