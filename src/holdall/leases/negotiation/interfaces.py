"""What negotiation asks of others, within a turn: who asks, what may it have, what is its share.

Implementations are values or pure of clock and I/O; the managers share them with their twins, but for `Sharing`, of
which each manager has its own.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Protocol, Self

import msgspec

from holdall.leases.shares import Demanded, Wanted
from holdall.leases.sorted_sums import Exact, Name
from holdall.machine.contract import Address
from holdall.model.terms import Value


class Asker(msgspec.Struct, frozen=True):
    """Who asks, as the connection has proved it; never from the body of a message."""

    holder: str
    attributes: tuple[tuple[str, str], ...] = ()
    """(name, value), ascending: `affiliation`, `role`, …"""


class Askers(Protocol):
    """Knows who is at the other end of a connection."""

    def asker(self, sender: Address) -> Asker:
        """Whoever sends from this address."""
        ...


class ByAddress:
    """Whoever sends is called by its address, and has no attributes."""

    def asker(self, sender: Address) -> Asker:
        """The address as text."""
        return Asker(str(sender))


class TermAsk(msgspec.Struct, frozen=True):
    """One term of a request, as a policy sees it. The lease duration is asked for as the term `duration`."""

    asker: Asker
    term: str
    amount: Value
    duration_ms: int
    capacity: int | None = None
    """Of a capacity: all of it, for limits that are fractions."""
    terms: Mapping[str, Value] = {}
    """The whole request, for conditions that look at it."""


class Holding(msgspec.Struct, frozen=True):
    """What somebody has already, active, held or draining. The lease that is to be replaced is left out."""

    asker: Asker
    term: str
    amount: Value


class Allowed(msgspec.Struct, frozen=True):
    """What a policy lets one have of a term."""

    amount: int | None = None
    """At most; None: no limit. Of functions only whether it is 0 counts."""
    rule: str = ""
    """The rule that limits or refuses."""
    weight: Exact = 1
    group: str = ""
    """Of the fair fraction."""


class Policy(Protocol):
    """What may this holder have of this term."""

    def may_have(self, ask: TermAsk, holdings: Sequence[Holding]) -> Allowed:
        """`amount` 0: nothing at all."""
        ...

    def rank(self, host: str) -> int:
        """Of a host, among proposals that are equally close; smaller is taken first."""
        ...


class AllowAll:
    """The policy where none is configured."""

    def may_have(self, ask: TermAsk, holdings: Sequence[Holding]) -> Allowed:
        """No limit."""
        del ask, holdings
        return Allowed()

    def rank(self, host: str) -> int:
        """All alike."""
        del host
        return 0


class Sharing(Protocol):
    """One capacity of a host: grants its parts and never more than there is. `leases.shares.Shares` is one.

    A part goes by the name that it was asked with. Times are ms of one clock that never goes back.
    """

    capacity: int

    @property
    def free(self) -> int:
        """What nobody has."""
        ...

    def ask(
        self,
        holder: str,
        lease: str,
        wanted: Wanted,
        *,
        now_ms: int,
        duration_ms: int,
        replaces: str | None = None,
        floor: int = 1,
    ) -> int:
        """What the part has from now on; 0: less than `floor`, and nothing is held."""
        ...

    def best(self, holder: str, wanted: Wanted, *, now_ms: int) -> int:
        """What `ask` would grant with no floor."""
        ...

    def demands(self, *, now_ms: int) -> Sequence[Name]:
        """(holder, lease) of each part, and (holder, "") of each demand that is remembered."""
        ...

    def demand(self, holder: str, lease: str) -> Demanded:
        """One of them. Raises KeyError."""
        ...

    def divide_among(self, groups: Mapping[str, Exact] | None) -> None:
        """Weights of groups from now on; None: one level."""
        ...

    def reweigh(self, lease: str, weight: Exact, group: str) -> None:
        """A part's demand has these from now on. Raises KeyError."""
        ...

    def restore(self, holder: str, lease: str, wanted: Wanted, granted: int) -> None:
        """A part that was granted before a restart, whatever is free."""
        ...

    def confirm(self, lease: str) -> None:
        """What it replaces is over."""
        ...

    def withdraw(self, lease: str) -> None:
        """It never was; what it was to replace lives on."""
        ...

    def expire(self, lease: str, *, now_ms: int, duration_ms: int, draining: bool = False) -> None:
        """Over without a release."""
        ...

    def release(self, lease: str, *, draining: bool = False) -> None:
        """Given back."""
        ...

    def drained(self, lease: str) -> None:
        """The last work of a draining part is done or cut."""
        ...

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        ...

    def copy(self) -> Self:
        """An independent twin."""
        ...
