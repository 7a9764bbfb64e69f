"""The turn of a node: everything that has arrived -> the machines -> one transaction -> timers -> sends.

Nothing of a turn leaves before its records are in the journal. When the disk is full the turn is held and tried
again for a bounded time, and nothing else is handled meanwhile; any other failure of the journal ends the node.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from holdall.leases.records import FenceBlock
from holdall.machine.codec import CodecError
from holdall.machine.contract import Address, Boot, ClockRead, Message, ProtocolViolation, Received, Record
from holdall.machine.host import Arrival, Host, Turn
from holdall.machine.link import LINK
from holdall.node.accounting.account import Account
from holdall.node.accounting.intervals import Entries
from holdall.node.clock import boottime_ms, wall_ms
from holdall.node.failpoint import Failpoint
from holdall.node.figures import Spread
from holdall.node.log import claims_in, kind_of
from holdall.node.recorder import Recorder
from holdall.node.store import JournalBroken, JournalFull, Store
from holdall.node.timers import Timers
from holdall.parties.jobs.messages import JOBS
from holdall.parties.location.messages import HOST, NEGOTIATOR
from holdall.parties.messages import AGENT, CLAIMANT, MANAGER, NODE

ARRIVALS_PER_TURN_MAX = 1024
TIMERS_PER_TURN_MAX = 1024
REFUSALS_TOLD_MAX = 10
"""Of one turn in the log; a frame of a hostile node may hold thousands. All are counted."""
WAKE_S_MAX = 1.0
"""Loop timers stand still while a machine is suspended; so none is longer than this."""
FULL_RETRY_S = 0.5
FULL_GIVE_UP_MS = 20_000
CLOCKED = (AGENT, CLAIMANT, MANAGER, JOBS, HOST, NEGOTIATOR)
"""Parts that are told the time before the events of a turn."""


class Ports(Protocol):
    """Where sends go that leave the host."""

    def deliver(self, sender: Address, to: Address, message: Message) -> None:
        """Take one message; it may be kept until `turn_done`."""
        ...

    def turn_done(self) -> None:
        """All sends of the turn have been delivered."""
        ...


class Log(Protocol):
    """What this file needs of a logger."""

    def warning(self, event: str, **values: object) -> object:
        """Something a person may want to look at."""
        ...

    def error(self, event: str, **values: object) -> object:
        """Something a person must look at."""
        ...


class Loop:
    """Drives one host on the running asyncio loop; one plain callback a turn, no task and no queue a message."""

    def __init__(
        self,
        host: Host,
        store: Store,
        ports: Ports,
        log: Log,
        *,
        failed: Callable[[str], None],
        failpoint: Failpoint,
        recorder: Recorder | None = None,
        account: Account | None = None,
    ) -> None:
        """`failed` is called once, with a text for people, when the node can't go on."""
        self.host = host
        self.timers = Timers()
        self.turns = 0
        self.commits = Spread()
        self.refused = 0
        """Events that a machine could not have got from a correct neighbour."""
        self._store = store
        self._ports = ports
        self._log = log
        self._failed = failed
        self._failpoint = failpoint
        self._recorder = recorder
        self._account = account
        self._inbox: deque[Arrival] = deque()
        self._held: tuple[Sequence[Arrival], Turn] | None = None
        self._held_since_ms = 0
        self._is_over = False
        self._is_scheduled = False
        self._wake: asyncio.TimerHandle | None = None

    def begin(self, boot: Boot, *, is_first: bool = False) -> None:
        """Start the machines, from the journal unless this is their first start, and do what they ask at once.

        Raises as `Store.commit`.
        """
        records = {} if is_first else self._store.records()
        turn = self.host.start() if is_first else self.host.recover(records, boot)
        if self._recorder is not None:
            self._recorder.began(boot, records, turn, at_ms=boottime_ms(), is_first=is_first)
        if self._account is not None:
            self._commit_account(self._account, {}, self._account.begin(records))
        self._commit(turn)
        self._act(turn)
        self._inbox.extend(self._clock_reads())
        self._schedule()

    def put(self, part: str, sender: Address, message: Message) -> None:
        """Something has arrived for a part of the host; a turn follows soon."""
        if not self._is_over:
            self._inbox.append(Arrival(part, Received(sender, message)))
            if self._held is None:
                # While a turn is held, only its own timer tries the full disk again.
                self._schedule()

    def stop(self) -> None:
        """Handle nothing any more. The journal has every turn whose answers have left."""
        self._is_over = True
        if self._wake is not None:
            self._wake.cancel()

    def run_turn(self) -> None:
        """Handle what is due and what has arrived, now."""
        self._is_scheduled = False
        if self._is_over:
            return
        try:
            self._turn()
        except (JournalBroken, CodecError) as error:
            self._end(str(error))
        # A machine with a bug may have changed half of its state: only the journal can be trusted now.
        except Exception as error:  # noqa: BLE001
            self._log.error("a turn failed", exc_info=error)
            self._end(
                f"internal error: {error!r}. Nothing of this turn was journalled or told. Please report it."
            )

    def _turn(self) -> None:
        if self._held is not None:
            arrivals, turn = self._held
        else:
            arrivals, turn = self._handle()
        if not arrivals:
            self._set_wake()
            return
        try:
            self._commit(turn)
        except JournalFull as error:
            self._hold(arrivals, turn, error)
            return
        if self._held is not None:
            self._held = None
            self._log.warning("there is space for the journal again; going on")
        self._record(arrivals, turn)
        self._act(turn)
        self.turns += 1
        self._set_wake()

    def _handle(self) -> tuple[Sequence[Arrival], Turn]:
        """Give the machines what is due first, then what has arrived."""
        events = [
            self.host.fire(name) for name in self.timers.take_due(boottime_ms(), most=TIMERS_PER_TURN_MAX)
        ]
        while self._inbox and len(events) < ARRIVALS_PER_TURN_MAX:
            events.append(self._inbox.popleft())
        if not events:
            return (), Turn(saves={}, timers={}, sends=[])
        arrivals = [*self._clock_reads(), *events]
        refused: list[tuple[Arrival, ProtocolViolation]] = []
        turn = self.host.turn(arrivals, lambda arrival, error: refused.append((arrival, error)))
        if not refused:
            return arrivals, turn
        self._tell(refused)
        # What a part refused changed nothing; a trace does without it. A frame counts for its other parcels.
        without = {id(arrival) for arrival, _ in refused if arrival.part != LINK}
        return [arrival for arrival in arrivals if id(arrival) not in without], turn

    def _tell(self, refused: Sequence[tuple[Arrival, ProtocolViolation]]) -> None:
        self.refused += len(refused)
        for arrival, error in refused[:REFUSALS_TOLD_MAX]:
            self._log.error(
                "refused",
                part=arrival.part,
                claims=claims_in(arrival.event),
                why=str(error),
                what=kind_of(arrival.event),
            )
        if len(refused) > REFUSALS_TOLD_MAX:
            self._log.error("refused", more=len(refused) - REFUSALS_TOLD_MAX)

    def _clock_reads(self) -> list[Arrival]:
        clock = ClockRead(wall_ms=wall_ms(), boot_ms=boottime_ms())
        sender = Address(self.host.node, NODE)
        return [Arrival(part, Received(sender, clock)) for part in CLOCKED if part in self.host.parts]

    def _commit(self, turn: Turn) -> None:
        if not turn.saves:
            return
        self._failpoint.visit("turn-before-commit")
        began_s = time.perf_counter()
        # A fence may not come twice even after a power cut, so its block is on the disk before one of it is given.
        synced = any(isinstance(record, FenceBlock) for record in turn.saves.values())
        entries = None if self._account is None else self._account.entries(turn.saves, turn.ends)
        if self._account is not None and entries:
            self._commit_account(self._account, turn.saves, entries, synced=synced)
        else:
            self._store.commit(turn.saves, synced=synced)
        self.commits.add(time.perf_counter() - began_s)
        self._failpoint.visit("turn-after-commit")

    def _commit_account(
        self, account: Account, saves: Mapping[str, Record | None], entries: Entries, *, synced: bool = False
    ) -> None:
        """What a turn adds to the account stands in the turn's own transaction."""
        if entries:
            self._store.commit(saves, synced=synced, beside=account.steps(entries))
            account.committed(entries)

    def _act(self, turn: Turn) -> None:
        self.timers.apply(turn.timers, boottime_ms())
        if turn.sends:
            self._failpoint.visit("turn-before-send")
            for sender, to, message in turn.sends:
                self._ports.deliver(sender, to, message)
        self._ports.turn_done()
        if turn.sends:
            self._failpoint.visit("turn-after-send")

    def _record(self, arrivals: Sequence[Arrival], turn: Turn) -> None:
        if self._recorder is None:
            return
        try:
            self._recorder.turned(arrivals, turn, at_ms=boottime_ms())
        except (CodecError, OSError) as error:
            self._log.warning("the trace ends here", why=str(error))
            self._recorder = None

    def _hold(self, arrivals: Sequence[Arrival], turn: Turn, error: JournalFull) -> None:
        if self._held is None:
            self._held = (arrivals, turn)
            self._held_since_ms = boottime_ms()
            self._log.error(
                "the disk is full: nothing is granted, released or renewed until there is space",
                why=str(error),
            )
        if boottime_ms() - self._held_since_ms > FULL_GIVE_UP_MS:
            self._end(f"{error} No space came for {FULL_GIVE_UP_MS // 1000} s, so the node ends.")
            return
        if self._wake is not None:
            self._wake.cancel()
        self._wake = asyncio.get_running_loop().call_later(FULL_RETRY_S, self._schedule)

    def _end(self, text: str) -> None:
        self.stop()
        self._failed(text)

    def _schedule(self) -> None:
        if not self._is_scheduled and not self._is_over:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self.run_turn)

    def _set_wake(self) -> None:
        if self._inbox:
            self._schedule()
            return
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None
        due = self.timers.next_ms()
        if due is not None:
            after_s = min(WAKE_S_MAX, max(0.0, (due - boottime_ms()) / 1000))
            self._wake = asyncio.get_running_loop().call_later(after_s, self._schedule)
