"""The messages of negotiation, a closed union for each pair of parties; the sender comes from the connection.

Times are durations, never instants: whoever receives one counts by its own clock. Each operation may come twice and has
its effect once. Source: lease negotiation, section 4.2.
"""

from typing import TypeAlias

import msgspec

from holdall.leases.negotiation.interfaces import Asker
from holdall.machine.codec import CODEC
from holdall.machine.contract import Address
from holdall.model.terms import LeaseDocument, LeaseRequest, RequestedTerm, Template, TermStatus, TermUse

# ---------------------------------------------------------------- agent -> location manager


class GetTemplates(msgspec.Struct, frozen=True, tag="get_templates"):
    """What does this location offer? Answered by Templates."""


class RequestLease(msgspec.Struct, frozen=True, tag="request_lease"):
    """Answered by Offer or Declined; the same again by the same answer."""

    request: LeaseRequest


class AcceptLease(msgspec.Struct, frozen=True, tag="accept_lease"):
    """Answered by LeaseIs (active), Lapsed, StaleRevision or UnknownLease; the same again by the same answer."""

    lease: str
    revision: int


class DeclineLease(msgspec.Struct, frozen=True, tag="decline_lease"):
    """The offer is not wanted. Answered by Done."""

    lease: str
    revision: int


class LeaveLine(msgspec.Struct, frozen=True, tag="leave_line"):
    """A request that may wait is not wanted any more. No answer but to one that still stands in line: Declined."""

    request: str


class ReleaseLease(msgspec.Struct, frozen=True, tag="release_lease"):
    """To the location's manager, or to the host's. Answered by Done, or UnknownLease."""

    lease: str


class GetStatus(msgspec.Struct, frozen=True, tag="get_status"):
    """Answered by LeaseIs or UnknownLease."""

    lease: str


class Renewal(msgspec.Struct, frozen=True):
    """One lease of a batch. Without `terms` the same is asked as before; pools stay as they are in any case."""

    lease: str
    terms: dict[str, RequestedTerm] | None = None


class RenewLeases(msgspec.Struct, frozen=True, tag="renew_leases"):
    """To the location's manager, or to the host's. Each lease is answered by itself, by Renewed."""

    count: int
    renewals: tuple[Renewal, ...]
    duration: int


class SplitLease(msgspec.Struct, frozen=True, tag="split_lease"):
    """To the location's manager, which passes it on to the host's: cut amounts of capacities off, as a lease of another holder.

    Answered by the host's manager, by Split or NoSplit; the same again by the same answer. A host that is asked itself
    knows of its own policy alone.
    """

    lease: str
    part: str
    """Id of the new lease, chosen by whoever asks."""
    amounts: dict[str, int]
    to: Asker
    """What else but the name is known of the new holder, the host itself knows."""
    to_address: Address
    """Where the new holder's agent is."""


class UseIs(msgspec.Struct, frozen=True, tag="use_is"):
    """To the host's manager: what the holder has used so far, as whoever forwards for it has measured. No answer."""

    lease: str
    uses: tuple[TermUse, ...]
    meter: str = ""
    """Which has counted this since it began; another one begins at 0."""
    before_end: str = ""
    """What became of that which was to be done before the end; empty: nothing yet."""


AgentToLocation: TypeAlias = (
    GetTemplates
    | RequestLease
    | AcceptLease
    | DeclineLease
    | LeaveLine
    | ReleaseLease
    | GetStatus
    | RenewLeases
    | SplitLease
)
AgentToHost: TypeAlias = RenewLeases | ReleaseLease | GetStatus | SplitLease | UseIs

# ---------------------------------------------------------------- to the agent


class Templates(msgspec.Struct, frozen=True, tag="templates"):
    """Equal ones are shown once. `suspect`: those which only hosts offer that have not been heard of for a while."""

    templates: tuple[Template, ...]
    suspect: tuple[str, ...] = ()


class Offer(msgspec.Struct, frozen=True, tag="offer"):
    """Binding for `offer_ms` from its sending on; `document` is in state `offered`."""

    request: str
    offer_ms: int
    document: LeaseDocument


class Declined(msgspec.Struct, frozen=True, tag="declined"):
    """No offer, and why."""

    request: str
    reason: str
    term: str = ""
    rule: str = ""
    """Of a policy."""
    text: str = ""
    best_possible: dict[str, int] = {}
    missing: dict[str, str] = {}
    """Host -> the first term that it does not support."""
    templates: tuple[Template, ...] = ()
    """The current ones, when the one that was named is unknown."""
    retry_after_ms: int = 0


class Queued(msgspec.Struct, frozen=True, tag="location_queued"):
    """Nothing can be offered now; the request stands in line, and Offer or Declined follows within its `wait_ms`.

    Told again where it stands by then whenever the request comes again.
    """

    request: str
    position: int
    """1: nobody waits before it."""
    ahead: int = 0
    """Of those before it so many want one of its terms: no more are served before it."""
    reason: str = ""
    """Of the latest decline, with its term, and what could have been had then."""
    term: str = ""
    best_possible: dict[str, int] = {}


class LeaseIs(msgspec.Struct, frozen=True, tag="lease_is"):
    """The lease as its host knows it."""

    document: LeaseDocument


class Lapsed(msgspec.Struct, frozen=True, tag="lapsed"):
    """The offer is over; nothing is granted by it, nor will be."""

    lease: str
    revision: int


class StaleRevision(msgspec.Struct, frozen=True, tag="stale_revision"):
    """Another revision has been offered or confirmed since."""

    lease: str
    revision: int
    current: int


class UnknownLease(msgspec.Struct, frozen=True, tag="unknown_lease"):
    """Not known here, or not the asker's."""

    lease: str


class Done(msgspec.Struct, frozen=True, tag="done"):
    """Declined or released."""

    lease: str


class Renewed(msgspec.Struct, frozen=True, tag="renewed"):
    """What came of one lease of a batch: the new document, or None and the reason; the old lease is as it was then."""

    count: int
    lease: str
    document: LeaseDocument | None = None
    reason: str = ""
    """`unknown`, `ended`, `revoking`, `worse` (ask with a floor), `oversubscribed`, `policy`, …"""
    term: str = ""
    rule: str = ""
    best_possible: dict[str, int] = {}


class Revoking(msgspec.Struct, frozen=True, tag="revoking"):
    """The lease ends after `grace_ms`, whatever the holder does."""

    lease: str
    grace_ms: int
    why: str


class Split(msgspec.Struct, frozen=True, tag="split"):
    """Both leases after a split; amounts add up to what the first had."""

    rest: LeaseDocument
    part: LeaseDocument


class NoSplit(msgspec.Struct, frozen=True, tag="no_split"):
    """Nothing was changed.

    `reason`: `unknown`, `ended`, `revoking`, `part` (no id for a part of it), `taken` (another split's), `to` (no user of a
    node that is known), `term`, `amount`, `constraint.…` of the template, `policy`.
    """

    lease: str
    part: str
    reason: str
    term: str = ""
    rule: str = ""
    best_possible: dict[str, int] = {}


LocationToAgent: TypeAlias = (
    Templates
    | Offer
    | Declined
    | Queued
    | LeaseIs
    | Lapsed
    | StaleRevision
    | UnknownLease
    | Done
    | Renewed
    | Revoking
    | NoSplit
)
HostToAgent: TypeAlias = LeaseIs | UnknownLease | Done | Renewed | Revoking | Split | NoSplit

# ---------------------------------------------------------------- location manager -> host manager


class Propose(msgspec.Struct, frozen=True, tag="propose"):
    """What would you give? Amounts are in base units. Answered by Proposal or HostRefused; held for `hold_ms`."""

    epoch: int
    round: str
    """Of this manager and request; names the answers."""
    agent: Address
    asker: Asker
    request: LeaseRequest
    duration: int
    hold_ms: int
    requested: dict[str, int] = {}
    """What was asked before the location's policy lessened it, where it did."""


class Select(msgspec.Struct, frozen=True, tag="select"):
    """This hold is offered to the agent, and is kept for `offer_ms` from now on."""

    epoch: int
    hold: str
    offer_ms: int


class Cancel(msgspec.Struct, frozen=True, tag="cancel"):
    """The hold is not needed: `not_chosen`, or its offer was `declined` or has `lapsed`."""

    epoch: int
    hold: str
    why: str = "not_chosen"


class Confirm(msgspec.Struct, frozen=True, tag="confirm"):
    """The offer was accepted. Answered by Confirmed or UnknownHold; the same again by the same."""

    epoch: int
    hold: str
    lease: str


class LeaseLimits(msgspec.Struct, frozen=True):
    """What the location's policy lets a lease have from its next renewal on."""

    lease: str
    most: dict[str, tuple[int, str]]
    """Term, or `duration` -> so much, and the rule that says so. 0: nothing of it."""


class PassOn(msgspec.Struct, frozen=True, tag="pass_on"):
    """What an agent asks of this host's leases. Answers go to the agent."""

    epoch: int
    agent: Address
    asker: Asker
    message: RenewLeases | ReleaseLease | GetStatus | SplitLease
    limits: tuple[LeaseLimits, ...] = ()
    """Of the part of a split. Of leases to be renewed; kept, over restarts too, for renewals that come to the host itself, until the manager says otherwise."""


class Revoke(msgspec.Struct, frozen=True, tag="revoke"):
    """End the lease after `grace_ms`; its holder is told."""

    epoch: int
    lease: str
    grace_ms: int
    why: str


class Welcome(msgspec.Struct, frozen=True, tag="welcome"):
    """Answer to HostHello and Heartbeat. Not `known`: say hello again, with all leases."""

    epoch: int
    known: bool


LocationToHost: TypeAlias = Propose | Select | Cancel | Confirm | PassOn | Revoke | Welcome

# ---------------------------------------------------------------- host manager -> location manager


class Proposal(msgspec.Struct, frozen=True, tag="proposal"):
    """Held under `hold`. `left`: the least part of what is asked that is left, as (free, all)."""

    round: str
    hold: str
    terms: tuple[TermStatus, ...]
    duration: int
    """Of the lease; less than asked where policy says so."""
    incarnation: int
    """Of the host's process: a later one does not know the hold."""
    left: tuple[int, int] = (1, 1)


class HostRefused(msgspec.Struct, frozen=True, tag="host_refused"):
    """Nothing is held. `best_possible`: what there would be of the term that fails."""

    round: str
    reason: str
    term: str = ""
    rule: str = ""
    best_possible: dict[str, int] = {}
    retry_after_ms: int = 0


class UnknownHold(msgspec.Struct, frozen=True, tag="unknown_hold"):
    """It is over; nothing was granted by it, nor will be."""

    hold: str


class Confirmed(msgspec.Struct, frozen=True, tag="confirmed"):
    """The lease is active."""

    hold: str
    document: LeaseDocument


class StaleLm(msgspec.Struct, frozen=True, tag="stale_lm"):
    """A later manager of the location has spoken, in `epoch`; nothing was done."""

    epoch: int


class HostHello(msgspec.Struct, frozen=True, tag="host_hello"):
    """This host is there; `leases`: all that live, which replaces what the location knew of it."""

    host: str
    incarnation: int
    template: Template
    leases: tuple[LeaseDocument, ...]
    draining: bool = False
    askers: tuple[Asker, ...] = ()
    """Of these leases, with what the location's policy asks about them."""


class Heartbeat(msgspec.Struct, frozen=True, tag="heartbeat"):
    """Sent every second. Answered by Welcome."""

    host: str
    incarnation: int
    seq: int
    template: str
    free: dict[str, int] = {}
    """Of capacities."""


class HostLeave(msgspec.Struct, frozen=True, tag="host_leave"):
    """No new holds; what was held or offered is withdrawn."""

    host: str
    incarnation: int


class LeaseChanged(msgspec.Struct, frozen=True, tag="lease_changed"):
    """A lease was renewed, split or cut off another, or is over, for the location's index."""

    document: LeaseDocument
    asker: Asker | None = None
    """Whose it is, where the location can't know."""


HostToLocation: TypeAlias = (
    Proposal
    | HostRefused
    | UnknownHold
    | Confirmed
    | StaleLm
    | HostHello
    | Heartbeat
    | HostLeave
    | LeaseChanged
)

# ---------------------------------------------------------------- election -> location manager


class Lead(msgspec.Struct, frozen=True, tag="lead"):
    """To a location's manager, from whoever elects among several: its epoch from now on. A smaller one is ignored."""

    epoch: int


CODEC.register(
    "negotiation",
    GetTemplates
    | RequestLease
    | AcceptLease
    | DeclineLease
    | LeaveLine
    | ReleaseLease
    | GetStatus
    | RenewLeases
    | SplitLease
    | Templates
    | Offer
    | Declined
    | Queued
    | LeaseIs
    | Lapsed
    | StaleRevision
    | UnknownLease
    | Done
    | Renewed
    | Revoking
    | Split
    | NoSplit
    | LocationToHost
    | HostToLocation
    | Lead,
)
