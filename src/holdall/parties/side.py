"""What every pool's side is, whatever its protocol: a manager and the lease book as one machine, joined by plain calls."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Generic, Self, TypeAlias, TypedDict, TypeVar, Unpack, cast

from holdall.leases.book import OWN_MESSAGES, LeaseBook
from holdall.leases.listing import Alive, Entry, Short, Standing
from holdall.leases.messages import AskPrepared, EndsAs, PoolSpec, RaiseFence, UnitsBack
from holdall.leases.peers import Peers
from holdall.leases.records import PREFIX
from holdall.machine.contract import (
    BOOT_KEY,
    Address,
    Boot,
    ClockRead,
    Event,
    Message,
    ProtocolViolation,
    Received,
    Record,
    Send,
)
from holdall.model.names import pool_name
from holdall.parties.messages import CLAIMANT
from holdall.protocols.hooks import Book, Effects
from holdall.protocols.vocabulary import ClaimId

M = TypeVar("M", bound=Any)
Make: TypeAlias = Callable[[Book], M]


class BookTerms(TypedDict, total=False):
    """What a lease book can be told."""

    rho_ppm: int
    fence_step: int
    fence_block: int
    watch_peers: bool
    attempt_of: Callable[[int], int]


class Side(ABC, Generic[M]):
    """The machine `manager` of a node. Records and timers that begin with `book/` are the book's.

    `make` builds the manager over the book. `ttl_max_ms`: claims with a longer ttl are refused.
    """

    def __init__(
        self,
        node: str,
        pools: Iterable[PoolSpec],
        make: Make[M],
        *,
        epoch: int = 1,
        ttl_max_ms: int | None = None,
        **terms: Unpack[BookTerms],
    ) -> None:
        self.node = node
        self.ttl_max_ms = ttl_max_ms
        self.book = LeaseBook(node, pools, epoch=epoch, **terms)
        self.manager: M = make(self.book)
        self.book.guard = self.manager
        self.peers = Peers()
        """What is here of claims of other nodes."""
        self.stands: Callable[[ClaimId, int], bool] | None = None
        """Whether this attempt of a claim of this node goes on, where its claimant is on the same host."""
        self.turns = 0
        """Grows with each event: tells a reader of this side whether what it has read still holds."""
        self._back: set[str] = set()
        """Pools whose units came or went without the protocol since `take_touched`."""

    # ------------------------------------------------------------ what a protocol's side says

    @abstractmethod
    def takes(self, message: Message) -> bool:
        """Whether it is a message of the protocol."""

    @abstractmethod
    def protocol(self, sender: Address, message: Any, out: Effects) -> None:
        """Such a message. Raises ProtocolViolation for what its sender may not say."""

    @abstractmethod
    def compare(self, entry: Entry, out: Effects) -> Short | None:
        """Bring what is here of a claim to what its node says of it; what is here, if it is less than that."""

    @abstractmethod
    def note_peers(self, out: Effects) -> None:
        """Claims of other nodes that have come or gone in this turn: what is saved tells."""

    @abstractmethod
    def recovered(self, boot: Boot, out: Effects) -> None:
        """Book and manager are up."""

    @abstractmethod
    def touched(self) -> set[str] | None:
        """The manager's set of pools that have changed; None: it keeps none yet."""

    @abstractmethod
    def touch(self) -> None:
        """Have the manager keep an empty one from now on."""

    def overtakes(self) -> Mapping[str, int]:
        """Name of a pool -> how often a younger claim got ahead of a waiting one since this start, as the manager counts.

        Pools of one name together.
        """
        named: dict[str, int] = {}
        for pool, times in self.manager.overtakes.items():
            named[pool_name(pool)] = named.get(pool_name(pool), 0) + times
        return named

    # ------------------------------------------------------------ machine

    def start(self) -> Effects:
        """Nothing is kept and nothing is under way."""
        return []

    def handle(self, event: Event) -> Effects:
        """One event for the book or for the protocol. Raises ProtocolViolation for what is neither's."""
        self.turns += 1
        out: Effects = []
        if isinstance(event, Received):
            self._received(event.sender, event.message, out)
        elif event.timer.startswith(PREFIX):
            self.book.fired(event.timer, out)
        else:
            self.manager.fired(event.timer, out)
        self.book.tell_changes(out)
        self.note_peers(out)
        if self.touched() is not None:
            for effect in out:
                if isinstance(effect, Send) and isinstance(effect.message, UnitsBack):
                    self._back.update(effect.message.pools)
        return out

    def _received(self, sender: Address, message: Message, out: Effects) -> None:
        if self.takes(message):
            self.protocol(sender, message, out)
        elif isinstance(message, Alive):
            answer = self.peers.alive(sender.node, message, self.manager.epoch, self._comparing(out))
            self.book.heard(sender.node, out)
            out.append(Send(Address(sender.node, CLAIMANT), answer))
        elif isinstance(message, OWN_MESSAGES):
            self._own(sender, message, out)
        elif isinstance(message, Standing):
            self._compare_lists(sender, message, out)
        else:
            raise ProtocolViolation(f"{type(message).__name__} from {sender} is no message to a pool's side")

    def recover(self, records: Mapping[str, Record]) -> Effects:
        """The book first, as the manager settles at once when it is up."""
        self.turns += 1
        out: Effects = []
        boot = cast("Boot", records[BOOT_KEY])
        self.book.recover(records, out)
        own = {
            key: record for key, record in records.items() if not key.startswith(PREFIX) and key != BOOT_KEY
        }
        self.manager.recover(own, boot, out)
        self.recovered(boot, out)
        self.peers.restarted()
        return out

    def take_touched(self) -> list[str]:
        """Pools whose numbers may be others than when this was asked last; before it is asked first, none is noted."""
        touched = self._back | (self.touched() or set())
        self._back.clear()
        self.touch()
        return sorted(touched)

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        return (self.manager.key(), self.book.key(), self.peers.key())

    def copy(self) -> Self:
        """An independent twin."""
        twin = object.__new__(type(self))
        vars(twin).update(vars(self))
        twin.book = self.book.copy()
        twin.manager = self.manager.copy_with(twin.book)
        twin.book.guard = twin.manager
        twin.peers = self.peers.copy()
        twin._back = self._back.copy()
        return twin

    # ------------------------------------------------------------ inside

    def _own(self, sender: Address, message: Message, out: Effects) -> None:
        """Orders of this node's own parts; about the end of a claim also of the node that it belongs to."""
        speaks_for = (
            isinstance(message, EndsAs | RaiseFence | AskPrepared) and sender.node == message.claim.node
        )
        if sender.node != self.node and not speaks_for:
            raise ProtocolViolation(
                f"{type(message).__name__} is for this node's own parts, not for {sender}"
            )
        if isinstance(message, ClockRead):
            self.manager.clock_read(message.wall_ms)
        self.book.told(message, out)

    def _compare_lists(self, sender: Address, standing: Standing, out: Effects) -> None:
        answer, over = self.peers.standing(sender.node, standing, self.manager.epoch, self._comparing(out))
        self.book.heard(sender.node, out)
        for claim in over:
            self.book.told(EndsAs(claim, "lost"), out)
            self.manager.departed(claim, out, "not listed")
        if answer is not None:
            out.append(Send(Address(sender.node, CLAIMANT), answer))

    def _comparing(self, out: Effects) -> Callable[[Entry], Short | None]:
        return lambda entry: self.compare(entry, out)
