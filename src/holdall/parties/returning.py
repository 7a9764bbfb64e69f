"""The agent after a restart: what was known is known again, and everybody gets one full ttl to come back."""

from collections.abc import Mapping

from holdall.machine.contract import BOOT_KEY, Address, Boot, ClockRead, Record, Send
from holdall.parties.messages import PROCESSES, WatchProcess
from holdall.parties.parking import Parking
from holdall.parties.records import (
    CLAIM_PREFIX,
    LOG_PREFIX,
    SESSION_PREFIX,
    ClaimRecord,
    LogRecord,
    SessionRecord,
)
from holdall.parties.state import Claim, Session, State, silence_timer


class Returning:
    """Records in, state and timers out; the clock, when it comes, shortens what was set without one."""

    def __init__(self, state: State, parking: Parking) -> None:
        self._state = state
        self._parking = parking

    def clock(self, read: ClockRead) -> None:
        """What the driver's clocks show; the first reading after a start ends the waits that ran meanwhile."""
        state = self._state
        first = not state.wall_ms
        state.wall_ms, state.boot_ms = read.wall_ms, read.boot_ms
        if not first:
            return
        state.started_wall_ms, state.started_boot_ms = read.wall_ms, read.boot_ms
        for claim in state.by_printed.values():
            self._arm_wait(claim)
            if claim.record.phase == "draining":
                claim.kicked_boot_ms = read.boot_ms
        for session in state.sessions.values():
            session.heard_wall_ms, session.heard_boot_ms = read.wall_ms, read.boot_ms
            self._note_unheard(session)
        if state.begun is not None:
            state.note(*state.begun)
            state.begun = None

    def _note_unheard(self, session: Session) -> None:
        """What earlier starts have waited for it counts: a node that dies again and again would wait for ever.

        They heard nothing, so they confirmed nothing either; another boot's clock tells nothing.
        """
        state, since_ms = self._state, session.record.unheard_boot_ms
        if since_ms and state.same_boot and state.boot_ms >= since_ms:
            for ttl_ms in sorted(session.ttls):
                timer = silence_timer(session.record.session, ttl_ms)
                state.set_timer(timer, state.slow(ttl_ms) - (state.boot_ms - since_ms))
        elif state.boot_ms:
            state.change_session(session, unheard_boot_ms=state.boot_ms)

    def recover(self, records: Mapping[str, Record]) -> None:
        """As `Machine.recover`."""
        state = self._state
        boot = records[BOOT_KEY]
        if not isinstance(boot, Boot):
            raise TypeError(f"records[{BOOT_KEY!r}] is no Boot")
        state.same_boot = boot.kind == "same"
        state.incarnation = boot.incarnation
        state.quarantine_ms = boot.quarantine_ms
        rows = [record.row for record in _of(records, LOG_PREFIX) if isinstance(record, LogRecord)]
        state.log.extend(sorted(rows, key=lambda row: row.seq))
        for record in _of(records, SESSION_PREFIX):
            if isinstance(record, SessionRecord):
                session = Session(record, record.session)
                session.connected = False
                state.sessions[record.session] = session
        claims = [record for record in _of(records, CLAIM_PREFIX) if isinstance(record, ClaimRecord)]
        for record in sorted(claims, key=lambda record: record.claim):
            self._claim(record)
        self._sessions()
        state.units_freed(tuple(state.narrow))
        if claims:
            state.reconfigure()
        held = sum(1 for record in claims if record.grants)
        kind, text = "restarted", f"{held} leases and {len(claims) - held} waiting claims are known again"
        if boot.kind == "lost":
            # Without a journal and without a quarantine: there was no earlier start whose leases could be alive.
            kind, text = "started", "without a journal" if boot.quarantine_ms else "for the first time"
        if boot.quarantine_ms:
            text += f"; nothing is granted for {-(-boot.quarantine_ms // 1000)} s"
        state.begun = (kind, text)

    def _claim(self, record: ClaimRecord) -> None:
        state = self._state
        claim = Claim(record, "")
        state.add(claim)
        if record.phase == "waiting":
            self._parking.count(claim)
        elif record.phase == "parked":
            self._parking.known_again(claim)
        elif record.phase == "preparing":
            state.set_timer(f"prepared/{record.printed}", 0)
        elif record.phase == "draining":
            state.set_timer(f"kicked/{record.printed}", state.slow(record.ttl_ms))
        if record.phase in {"waiting", "parked"}:
            self._arm_wait(claim)
            state.set_timer(f"queued/{record.printed}", 0)

    def _sessions(self) -> None:
        """One full ttl (1 + rho) for every session, and an eye on its process."""
        state = self._state
        for name in sorted(state.sessions):
            session = state.sessions[name]
            for ttl_ms in sorted(session.ttls):
                state.arm_silence(session, ttl_ms)
            record = session.record
            if record.pid:  # else it is on another host
                watch = WatchProcess(record.session, record.pid, record.started)
                state.out.append(Send(Address(state.settings.node, PROCESSES), watch))

    def _arm_wait(self, claim: Claim) -> None:
        record = claim.record
        if record.phase in {"waiting", "parked", "preparing"} and record.wait_ms is not None:
            passed = self._state.elapsed_ms(record.asked_wall_ms, record.asked_boot_ms)
            self._state.set_timer(f"wait/{record.printed}", record.wait_ms - passed)


def _of(records: Mapping[str, Record], prefix: str) -> list[Record]:
    return [records[key] for key in sorted(records) if key.startswith(prefix)]
