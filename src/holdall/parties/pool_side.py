"""A pool's side of a node: the protocol's manager and the lease book as one machine, joined by plain calls."""

from collections.abc import Hashable, Iterable, Mapping
from typing import Self, cast, get_args

from holdall.leases.book import OWN_MESSAGES, LeaseBook
from holdall.leases.messages import PoolSpec
from holdall.leases.records import PREFIX
from holdall.leases.renewal import Alive, Peers, Standing
from holdall.machine.contract import (
    BOOT_KEY,
    Boot,
    ClockRead,
    Effect,
    Event,
    Forget,
    ProtocolViolation,
    Received,
    Record,
    Save,
    Send,
    TimerFired,
)
from holdall.protocols.chain.manager import Manager
from holdall.protocols.chain.messages import ToManager
from holdall.protocols.chain.rows import Limit, Row, claim_named
from holdall.protocols.chain.settling import DEFAULT_SETTINGS, ROW_KEY, Settings

_TO_MANAGER: tuple[type, ...] = get_args(ToManager)


class PoolSide:
    """The machine `manager` of a node. Records and timers that begin with `book/` are the book's.

    `make` is Manager, or a subclass without one of the rules. `passes`, `passes_per_ahead`, `limits` and
    `sweep_ms` are the manager's, or `settings` has them all (`protocols.chain.settling.Settings`); the other keywords
    are the lease book's.
    """

    def __init__(
        self,
        node: str,
        pools: Iterable[PoolSpec],
        *,
        epoch: int = 1,
        passes: int = DEFAULT_SETTINGS.passes,
        passes_per_ahead: int = DEFAULT_SETTINGS.passes_per_ahead,
        limits: tuple[Limit, ...] = (),
        sweep_ms: int | None = None,
        settings: Settings | None = None,
        rho_ppm: int = 20_000,
        fence_step: int = 1,
        fence_block: int = 1000,
        watch_peers: bool = True,
        make: type[Manager] = Manager,
    ) -> None:
        self.node = node
        self.book = LeaseBook(
            node,
            pools,
            rho_ppm=rho_ppm,
            fence_step=fence_step,
            fence_block=fence_block,
            watch_peers=watch_peers,
        )
        settings = settings or Settings(
            passes=passes, passes_per_ahead=passes_per_ahead, limits=limits, sweep_ms=sweep_ms
        )
        self.manager = make(node, epoch, self.book, settings)
        self.book.guard = self.manager
        self.peers = Peers()
        """Rows here of claims of other nodes."""
        self.turns = 0
        """Grows with each event: tells a reader of this side whether what it has read still holds."""

    def start(self) -> list[Effect]:
        """Nothing is kept and nothing is under way."""
        return []

    def handle(self, event: Event) -> list[Effect]:
        """One event for the book or for the protocol. Raises ProtocolViolation for what is neither's."""
        self.turns += 1
        out: list[Effect] = []
        match event:
            case TimerFired(timer) if timer.startswith(PREFIX):
                self.book.fired(timer, out)
            case TimerFired(timer):
                self.manager.fired(timer, out)
            case Received(sender, message) if isinstance(message, OWN_MESSAGES):
                if sender.node != self.node:
                    raise ProtocolViolation(
                        f"{type(message).__name__} is for this node's own parts, not for {sender}"
                    )
                if isinstance(message, ClockRead):
                    self.manager.clock_read(message.wall_ms)
                self.book.told(message, out)
            case Received(sender, message) if isinstance(message, _TO_MANAGER):
                if sender.node != self.node:
                    self.book.heard(sender.node, out)
                self.manager.receive(sender, cast("ToManager", message), out)
            case Received(sender, Alive() as alive):
                self.book.heard(sender.node, out)
                out.append(Send(sender, self.peers.alive(sender.node, alive, self.manager.epoch)))
            case Received(sender, Standing() as standing):
                self.book.heard(sender.node, out)
                answer, over = self.peers.standing(sender.node, standing)
                for claim in over:
                    self.manager.departed(claim, out, "not listed")
                out += [] if answer is None else [Send(sender, answer)]
            case Received(sender, message):
                raise ProtocolViolation(
                    f"{type(message).__name__} from {sender} is no message to a pool's side"
                )
        self.book.tell_changes(out)
        self._note_peers(out)
        return out

    def recover(self, records: Mapping[str, Record]) -> list[Effect]:
        """The book first, as the manager settles at once when it is up."""
        self.turns += 1
        out: list[Effect] = []
        boot = cast("Boot", records[BOOT_KEY])
        self.book.recover(records, out)
        own = {
            key: record for key, record in records.items() if not key.startswith(PREFIX) and key != BOOT_KEY
        }
        self.manager.recover(own, boot, out)
        for row in tuple(self.manager.rows.values()):
            self._note_row(row, out)
        return out

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        return (self.manager.key(), self.book.key(), self.peers.key())

    def copy(self) -> Self:
        """An independent twin."""
        twin = object.__new__(type(self))
        twin.node, twin.turns = self.node, self.turns
        twin.book = self.book.copy()
        twin.manager = self.manager.copy_with(twin.book)
        twin.book.guard = twin.manager
        twin.peers = self.peers.copy()
        return twin

    def _note_peers(self, out: list[Effect]) -> None:
        """Rows of other nodes' claims that have come or gone in this turn: what is saved tells."""
        for effect in tuple(out):
            match effect:
                case Save(_, Row() as row):
                    self._note_row(row, out)
                case Forget(key) if key.startswith(ROW_KEY):
                    claim = claim_named(key.removeprefix(ROW_KEY))
                    if claim.node != self.node and claim not in self.manager.rows:
                        self.peers.left(claim)
                        self.book.unwatch(claim, out)
                case _:
                    pass

    def _note_row(self, row: Row, out: list[Effect]) -> None:
        if row.claim.node != self.node and row.claim in self.manager.rows:
            self.peers.arrived(row.claim, row.attempt)
            self.book.watch(row.claim, row.terms.ttl_ms, out)
