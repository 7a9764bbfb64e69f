"""Claims on their way to a lease: checked, placed, sent to the pools, granted or refused, waited for in bounded time."""

import msgspec

from holdall.model import frames
from holdall.model.durations import show_duration
from holdall.model.errors import BadSpec, NeverSatisfiable, NotGranted, Refused
from holdall.model.names import NEEDS_MAX, POOLS_MAX, printed_id
from holdall.model.spec import ALL_COUNT
from holdall.model.why import Why
from holdall.parties.ends import LEASE_PHASES, Ends
from holdall.parties.explaining import Explaining
from holdall.parties.granting import Granting
from holdall.parties.listings.answers import Answers
from holdall.parties.messages import Asked, Prepared
from holdall.parties.nested import Nested
from holdall.parties.parking import Parking
from holdall.parties.planning.places import (
    NOWHERE,
    UNITS_MAX,
    Placement,
    fits_a_lease,
    place,
    readable,
    size_of,
    within,
)
from holdall.parties.planning.ways import Unplaceable
from holdall.parties.records import ClaimRecord
from holdall.parties.refusals import Refusal, Refusals
from holdall.parties.replanning import WIDEN_MS, Replanning
from holdall.parties.state import Claim, Session, State, secret_hash
from holdall.parties.texts import not_granted
from holdall.protocols.vocabulary import ALL, Gone, Granted, NotNow, Retrying

FIRST_LOOK_MS = 1000
LAST_LOOK_MS = 15_000
"""A waiting client is told of changes after 1 s, 2 s, 4 s, … and then every 15 s."""
RECORD_BYTES_MAX = 60_000
NODE_BYTES = 63
"""The longest name of a node: answers carry names, records ids."""
UNIT_BYTES = 124
"""A unit's longest name, its fence, and the names of the fields."""


class Claims:
    """From the request to the grant."""

    def __init__(
        self,
        state: State,
        *,
        parking: Parking,
        ends: Ends,
        explaining: Explaining,
        granting: Granting,
        nested: Nested,
        refusals: Refusals,
        replanning: Replanning,
        answers: Answers,
    ) -> None:
        self._state = state
        self._answers = answers
        self._parking = parking
        self._ends = ends
        self._explaining = explaining
        self._granting = granting
        self._nested = nested
        self._refusals = refusals
        self._replanning = replanning

    # ------------------------------------------------------------ asked

    def claim(self, session: Session, frame: frames.Claim, asked: Asked) -> None:
        """A request of a client. Everything that is wrong with it is told at once, and changes nothing."""
        known = session.numbers.get(frame.n)
        if known is not None:
            self._again(self._state.claims[known], asked)
            return
        refused = self._wrong(frame)
        if refused is None and frame.under:
            answered, refused, beside = self._nested.claim(session, frame)
            if answered:
                return
        else:
            beside = ""
        if refused is None:
            placed = self._place(session, frame)
            if isinstance(placed, Refusal) and placed.code == NeverSatisfiable.code:
                untold = self._untold(frame)
                if untold and frame.now:
                    text = f"not granted: nothing is known yet of the pools of {', '.join(untold)}"
                    placed = Refusal(NotGranted.code, text, placed.why)
                elif untold:
                    frame = msgspec.structs.replace(frame, allow_future=True)
                    placed = self._place(session, frame)
            if isinstance(placed, Placement):
                self._begin(session, frame, asked, placed, beside)
                return
            refused = placed
        self._state.tell(session.connection, refused.answer(frame.n))

    def _again(self, claim: Claim, asked: Asked) -> None:
        """The client repeats a claim after a reconnect: its answer once more."""
        record = claim.record
        if not claim.key:
            # Only the key's hash outlived the restart, and nobody can have been told the key.
            self._state.give_key(claim, asked.lot)
        if record.phase in {"granted", "draining"}:
            self._granting.tell(claim, record.n)
        else:
            self._tell_queued(claim)

    def _wrong(self, frame: frames.Claim) -> Refusal | None:
        settings = self._state.settings
        if not readable(frame.needs):
            return Refusal(BadSpec.code, f"a claim has 1 to {NEEDS_MAX} needs, each with a SPEC, e.g. gpu:1")
        if not settings.ttl_min_ms <= frame.ttl_ms <= settings.ttl_max_ms:
            low, high = show_duration(settings.ttl_min_ms), show_duration(settings.ttl_max_ms)
            return Refusal(
                BadSpec.code,
                f"ttl {show_duration(frame.ttl_ms)} is not possible: it lies between {low} and {high} "
                "(ttl_max of the system). For a long lease leave ttl alone and set --for.",
            )
        if frame.for_ms is not None and frame.for_ms < 1:
            return Refusal(BadSpec.code, "--for 0 ends before it begins. Write for instance --for 30m.")
        return None

    def _untold(self, frame: frames.Claim) -> list[str]:
        """Names of nodes that may have what a claim lacks: this one has not heard of their pools since its start."""
        named = {option.node for need in frame.needs for option in need.options}
        nodes = self._state.neighbours.nodes()
        return [node.name for node in nodes if not node.has_told and not named.isdisjoint({"", node.name})]

    def _place(self, session: Session, frame: frames.Claim) -> Placement | Refusal:
        system = self._state.system
        names = {name for need in frame.needs for option in need.options for name in option.pools}
        facts = system.own_facts(names)
        others = system.other_facts(names)
        # What runs on a host without a node is near to no node's own pools: see `ClaimRecord.is_outside`.
        own = self._state.own if session.record.pid or not frame.guarded else NOWHERE
        untold = frame.allow_future and system.is_untold()
        hopes = frame.allow_future and not others
        placed = place(frame.needs, facts, own, allow_future=hopes, now=frame.now, untold=untold)
        whole = any(option.count == ALL_COUNT for need in frame.needs for option in need.options)
        if isinstance(placed, Placement) and placed.ready == 0 and not whole:
            # Free here: nobody else is asked unless it has to wait.
            placed = msgspec.structs.replace(placed, narrow=placed.narrow or bool(others))
        elif others:
            facts += others
            placed = place(
                frame.needs, facts, own, allow_future=frame.allow_future, now=frame.now, untold=untold
            )
        if isinstance(placed, Unplaceable):
            why = self._refusals.never(session, frame.needs, frame.reason, short=placed.need)
            return Refusal(NeverSatisfiable.code, self._refusals.never_text(placed), why)
        total = {one.spot: one.total for one in facts}
        for way in placed.ways:
            if not fits_a_lease(way, total):
                units, pools = size_of(way, total)
                return Refusal(
                    Refused.code,
                    f"{units} units of {pools} pools in one lease; at most {UNITS_MAX} units of {POOLS_MAX} pools "
                    "are possible. Split the work into several leases.",
                )
        settings = self._state.settings
        served = within(placed, one=settings.one_placement, pools_max=settings.pools_max)
        if served is None:
            return Refusal(
                Refused.code,
                f"{min(len(way) for way in placed.ways)} pools in one claim; {settings.protocol}, the protocol of this "
                f"system, serves claims of at most {settings.pools_max}. Split the work, or choose another protocol.",
            )
        return served

    def _begin(
        self, session: Session, frame: frames.Claim, asked: Asked, placed: Placement, beside: str
    ) -> None:
        for_ms = self._replanning.hard_end(placed.ways, frame.for_ms)
        wrong = self._wrong_end(frame, for_ms)
        if wrong is not None:
            self._state.tell(session.connection, wrong.answer(frame.n))
            return
        party = self._state.new_claim_id()
        record = ClaimRecord(
            claim=party,
            printed=printed_id(str(party)),
            session=session.record.session,
            n=frame.n,
            key_hash=secret_hash(asked.lot),
            uid=session.record.uid,
            user=session.record.user,
            holder=session.record.holder,
            pid=session.record.pid,
            needs=frame.needs,
            shares=placed.ways,
            ttl_ms=frame.ttl_ms,
            phase="waiting",
            for_ms=for_ms,
            wait_ms=frame.wait_ms,
            asked_wait_ms=frame.asked_wait_ms,
            now=frame.now,
            narrow=placed.narrow,
            guarded=frame.guarded,
            detached=frame.detached,
            allow_future=frame.allow_future,
            reason=frame.reason,
            site=frame.site,
            beside=beside,
            asked_wall_ms=self._state.wall_ms,
            asked_boot_ms=self._state.boot_ms,
        )
        if self._bytes_when_granted(record, placed) > RECORD_BYTES_MAX:
            text = (
                "this claim is too large for one record (needs, alternatives, pools). Split it into several."
            )
            self._state.tell(session.connection, frames.Denied(frame.n, Refused.code, text))
            return
        claim = Claim(record, asked.lot)
        self._state.add(claim)
        self._state.arm_silence(session, record.ttl_ms)
        self._parking.enter(claim)
        if not record.now:
            if record.wait_ms is not None:
                self._state.set_timer(f"wait/{record.printed}", record.wait_ms)
            # Answered in the next turn, and only if it is not granted in this one; by other nodes it can't be so soon.
            here = all(share.node == self._state.own for way in placed.ways for share in way)
            self._state.set_timer(f"queued/{record.printed}", 0 if here else WIDEN_MS)

    def _bytes_when_granted(self, record: ClaimRecord, placed: Placement) -> int:
        """At most so long will record and answer be: what is longer fits into no frame."""
        units = 0
        for way in placed.ways:
            size = 0
            for share in way:
                numbers = self._state.system.numbers((share.node, share.pool)) if share.count == ALL else None
                amount = share.count if share.count != ALL else 1 if numbers is None else numbers.total
                size += amount * (max(len(share.node), NODE_BYTES) + len(share.pool) + UNIT_BYTES)
            units = max(units, size)
        return len(msgspec.msgpack.encode(record)) + units

    def _wrong_end(self, frame: frames.Claim, for_ms: int | None) -> Refusal | None:
        if frame.for_ms is not None and for_ms is not None and for_ms < frame.for_ms:
            return Refusal(
                Refused.code,
                f"--for {show_duration(frame.for_ms)} is longer than these pools allow (max_for {show_duration(for_ms)}). "
                "Ask for less, or leave --for out.",
            )
        if frame.detached and for_ms is None:
            return Refusal(BadSpec.code, "a detached lease needs a hard end: add --for, e.g. --for 1h.")
        return None

    # ------------------------------------------------------------ answers of the pools

    def granted(self, message: Granted) -> None:
        """All units at once. A late one of a claim that has ended is normal: its Release is under way."""
        claim = self._state.claims.get(message.claim)
        if claim is None or claim.record.phase != "waiting":
            return
        self._parking.leaves_line(claim)
        self._granting.granted(claim, message)
        self._parking.refill(claim.record.session)

    def prepared(self, message: Prepared, node: str) -> None:
        """All on_grant commands of a node have ended. If one failed, the claim comes again with its age."""
        claim = self._state.find(message.claim)
        if claim is not None and (
            message.claim not in claim.record.parties() or node not in claim.record.preparing
        ):
            return
        if claim is None or claim.record.phase != "preparing" or claim.record.attempt != message.attempt:
            return
        if not message.failed:
            self._granting.prepared(claim, node)
            return
        units = ", ".join(f"{grant.pool}/{grant.unit}" for grant in message.failed)
        if claim.record.now:
            text = f"not granted: {units} could not be prepared ({message.text}). Ask again, or see: holdall pools"
            self._ends.deny(claim, NotGranted.code, text)
            self._ends.over(claim, "refused", text)
            return
        self._replanning.come_again(claim, claim.record.stamp)

    def ask_prepared(self, printed: str) -> None:
        """Ask other nodes once more whether its units are prepared."""
        claim = self._state.by_printed.get(printed)
        if claim is not None and claim.record.phase == "preparing":
            self._granting.ask_prepared(claim)

    def not_now(self, message: NotNow) -> None:
        """A claim without waiting found no units that delay nobody."""
        claim = self._state.claims.get(message.claim)
        if claim is None or claim.record.phase != "waiting":
            return
        if self._replanning.tries_elsewhere(claim):
            return
        # Of places on other nodes the client was told last what they have said.
        why = claim.shown if claim.shown is not None and claim.shown.lines else self._explaining.why(claim)
        text = not_granted(why, waited_ms=None, utc_offset_s=self._state.settings.utc_offset_s)
        record = claim.record
        self._state.tell_session(record.session, frames.Denied(record.n, NotGranted.code, text, why=why))
        self._ends.gone(claim, "refused", "not free now")

    def retrying(self, message: Retrying) -> None:
        """The pools don't queue it yet: told to its client with the next look."""
        claim = self._state.claims.get(message.claim)
        if claim is not None and claim.record.phase == "waiting":
            after = show_duration(message.retry_after_ms)
            claim.retry_text = f"{self._state.name_of(message.node)} has come up again; the claim goes on with its age in {after}"
            self._replanning.turned_away(claim, message.node, message.retry_after_ms)

    def gone(self, message: Gone) -> None:
        """The pools have ended the lease by themselves."""
        claim = self._state.claims.get(message.claim)
        if claim is not None:
            self._granting.taken_back(claim, message.reason)

    # ------------------------------------------------------------ waiting

    def wait_over(self, printed: str) -> None:
        """The client does not want to wait any longer."""
        claim = self._state.by_printed.get(printed)
        if claim is None or claim.record.phase in LEASE_PHASES - {"preparing"}:
            return
        record = claim.record
        waited_ms = record.wait_ms or 0 if record.asked_wait_ms is None else record.asked_wait_ms
        why, shown = self._explaining.why(claim), claim.shown
        if shown is not None and (shown.lines or _same_units(shown, why)):
            why = shown  # what other nodes told last of its places there, or of who is in the way here
        text = not_granted(why, waited_ms=waited_ms, utc_offset_s=self._state.settings.utc_offset_s)
        self._state.tell_session(record.session, frames.Denied(record.n, NotGranted.code, text, why=why))
        self._ends.over(claim, "timed-out", f"not granted within {show_duration(waited_ms)}")

    def look(self, printed: str) -> None:
        """Tell a waiting client what has changed, less and less often."""
        claim = self._state.by_printed.get(printed)
        if claim is None or claim.record.phase not in {"waiting", "parked"}:
            return
        if claim.checked_ms:
            self._replanning.look_again(claim)
        else:
            self._replanning.waits_long(claim)
        if claim.shown is None or (
            not self._answers.explain(claim) and claim.shown != self._explaining.why(claim)
        ):
            self._tell_queued(claim)
        claim.checked_ms = min(max(2 * claim.checked_ms, FIRST_LOOK_MS), LAST_LOOK_MS)
        self._state.set_timer(f"queued/{printed}", claim.checked_ms)

    def _tell_queued(self, claim: Claim) -> None:
        record = claim.record
        if self._answers.spans(claim):
            self._answers.explain(claim, again=True)
            return
        claim.shown = self._explaining.why(claim)
        self._state.tell_session(record.session, frames.Queued(record.n, record.printed, claim.shown))
        self._answers.explain(claim)

    # ------------------------------------------------------------ cancelled

    def cancel(self, session: Session, frame: frames.Cancel, asked: Asked) -> None:
        """End a waiting claim; one of this session that has just been granted is released by it."""
        claim = self._named(session, frame.claim, asked.uid)
        state = self._state
        if claim is None:
            text = f"no waiting claim {frame.claim} of yours. See: holdall queue"
            denied = frames.Denied(frame.n, "not-holder", text)
            self._answers.elsewhere(session.connection, frame, frame.claim, denied)
            return
        record = claim.record
        own = record.session == session.record.session
        if record.phase in {"granted", "draining"} and not own:
            text = f"{frame.claim} has its units already: it is a lease. Release it with its key, or see: holdall who"
            state.tell(session.connection, frames.Denied(frame.n, "refused", text))
            return
        what = "released" if record.phase in {"granted", "draining"} else "cancelled"
        if what == "cancelled":
            by = "cancelled" if own else f"cancelled by {session.record.holder}"
            self._ends.deny(claim, NotGranted.code, by)
        self._ends.over(claim, what, "")
        state.tell(session.connection, frames.Released(frame.n, record.printed, what))

    def _named(self, session: Session, typed: str, uid: int) -> Claim | None:
        if typed.startswith("#"):
            number = typed[1:]
            party = session.numbers.get(int(number)) if number.isascii() and number.isdigit() else None
            return None if party is None else self._state.claims[party]
        found = [
            claim
            for claim in self._state.typed(typed)
            if claim.record.uid == uid or uid in {0, self._state.settings.uid}
        ]
        return found[0] if len(found) == 1 else None


def _same_units(one: Why, other: Why) -> bool:
    """Whether the same units are in the way, whoever has them."""
    return [(by.pool, by.units) for by in one.blockers] == [(by.pool, by.units) for by in other.blockers]
