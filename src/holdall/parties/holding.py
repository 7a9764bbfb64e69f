"""Leases in their holders' hands: attached, given back whole or in part, extended."""

from collections.abc import Sequence

from holdall.model import frames
from holdall.model.durations import show_duration
from holdall.model.errors import BadSpec, NotGranted, Refused
from holdall.model.names import pool_name, short_id
from holdall.parties.ends import Ends
from holdall.parties.finding import HELD, Finding, is_named, per_node, units_named
from holdall.parties.granting import Granting
from holdall.parties.life import silent_nodes
from holdall.parties.messages import Asked
from holdall.parties.records import ClaimRecord
from holdall.parties.revoking import Revoking
from holdall.parties.state import Claim, Session, State, secret_hash
from holdall.parties.texts import clock_text
from holdall.protocols.vocabulary import (
    ClaimId,
    Ended,
    Extend,
    Extended,
    ExtendRefused,
    Shrink,
    UnitGrant,
)

STOPPED_AS = {"not-renewed": "lost", "for-over": "expired"}
"""The row in the history of a lease that its guardian gives back because it was over for the holder, by the reason."""
FOR_NEGOTIATED: dict[frames.TakenBack, str] = {
    "expired": "the negotiated lease that it was for was not renewed in time",
    "kicked": "the negotiated lease that it was for was revoked",
}


class Holding:
    """What a holder does with its lease."""

    def __init__(
        self, state: State, *, ends: Ends, finding: Finding, granting: Granting, revoking: Revoking
    ) -> None:
        self._state = state
        self._ends = ends
        self._finding = finding
        self._granting = granting
        self._revoking = revoking

    # ------------------------------------------------------------ given back

    def release(self, session: Session, frame: frames.Release, asked: Asked) -> None:
        """End a lease. Repeated after its end it is answered as `already ended`."""
        claim = self._finding.find(session, frame.key, asked)
        connection = session.connection
        if claim is None:
            self._finding.no_lease(connection, frame.n, frame.key, released=True, request=frame)
            return
        record, what = claim.record, "released"
        kind, text = self._row(record, frame)
        if record.phase not in HELD:
            kind = what = "cancelled"
            self._ends.deny(claim, NotGranted.code, f"cancelled by {session.record.holder}")
        elif record.session != session.record.session:
            self._ends.lost(
                claim, f"lease {short_id(record.printed)} was released by {session.record.holder}."
            )
        if frame.wait:
            self._state.ending.setdefault(record.claim, []).append(
                (connection, frame.n, record.printed, what)
            )
        free_by_ms = self._care_ms(record)
        self._ends.over(claim, kind, text, unclean=bool(frame.why))
        if not frame.wait:
            self._state.tell(connection, frames.Released(frame.n, record.printed, what, free_by_ms))

    def _row(self, record: ClaimRecord, frame: frames.Release) -> tuple[str, str]:
        """What the history says of a lease that is given back."""
        is_kicked = record.phase == "draining"
        kind, text = ("kicked", f"revoked: {record.revoked}") if is_kicked else ("released", "")
        if frame.why and not is_kicked:
            return frame.why, FOR_NEGOTIATED[frame.why]
        if frame.exit is not None:
            text = "; ".join(part for part in (text, exit_text(frame.exit)) if part)
            if not is_kicked:
                kind = STOPPED_AS.get(frame.exit.reason.partition(":")[0], kind)
            if kind == "lost" and (silent := silent_nodes(self._state, record)):
                text += f"; silent: {', '.join(silent)}"
        return kind, text

    def ended(self, message: Ended) -> None:
        """All pools know of an end: the last word on a claim."""
        for connection, n, printed, what in self._state.ending.pop(message.claim, ()):
            self._state.tell(connection, frames.Released(n, printed, what))

    def drop(self, session: Session, frame: frames.Drop, asked: Asked) -> None:
        """Give back the units named (`pool/unit`); the last ones end the lease."""
        claim = self._finding.held(session, frame.key, frame.n, asked)
        if claim is None:
            return
        names = [name for name in frame.units if not self._given_back(claim.record, name)]
        if frame.units and not names:
            # Repeated after its answer was lost.
            self._state.tell(session.connection, self._granting.answer(claim, frame.n))
            return
        chosen = units_named(claim.record, names, self._state.name_of)
        if isinstance(chosen, str):
            self._state.tell(session.connection, frames.Denied(frame.n, BadSpec.code, chosen))
            return
        keep = [grant for grant in claim.record.grants if grant not in chosen]
        if not keep:
            self.release(session, frames.Release(frame.n, frame.key), asked)
            return
        self._state.to_claimant(Shrink(claim.record.claim, per_node(keep), tuple(keep)))
        self._state.units_freed(grant.pool for grant in chosen)
        self._keep_only(claim, keep)
        self._state.note("released", f"a part: {', '.join(frame.units)}", claim.record)
        self._state.tell(session.connection, self._granting.answer(claim, frame.n))

    # ------------------------------------------------------------ handed on, extended

    def attach(self, session: Session, frame: frames.Attach) -> None:
        """The lease with this key is this session's from now on: who has the key may."""
        claim = self._state.by_key.get(secret_hash(frame.key))
        if claim is None or claim.record.phase not in HELD:
            # Not by the printed id, whoever asks: the answer carries the key.
            self._finding.no_lease(session.connection, frame.n, frame.key)
            return
        claim.key = frame.key
        if not claim.record.detached:
            self._state.leave(claim)
            self._state.change(
                claim, session=session.record.session, n=frame.n, in_guard=claim.record.guarded
            )
            self._state.join(claim)
            self._state.arm_silence(session, claim.record.ttl_ms)
        if self._state.life is not None and not self._state.life.may_go_on(claim.record.parties()):
            # This node has come up again: what other nodes still have of the lease is not known yet.
            waiting = self._state.unconfirmed.setdefault(claim.record.printed, [])
            waiting.append((session.connection, frame.n))
            return
        self._tell_attached(claim, session.connection, frame.n)

    def tell_confirmed(self, party: ClaimId, connection: str, n: int) -> None:
        """The answer to an Attach that has waited for the other nodes of the lease."""
        claim = self._state.find(party)
        if claim is not None and claim.record.phase in HELD:
            self._tell_attached(claim, connection, n)

    def _tell_attached(self, claim: Claim, connection: str, n: int) -> None:
        self._state.tell(connection, self._granting.answer(claim, n))
        if claim.record.phase == "draining":
            self._revoking.tell_revoked(claim)

    def extend(self, session: Session, frame: frames.Extend, asked: Asked) -> None:
        """A later hard end, counted from now, at most the pools' max_for from the grant.

        Who has as much already, or no hard end at all, has what was asked for: nothing changes.
        """
        claim = self._finding.held(session, frame.key, frame.n, asked, frame)
        if claim is None:
            return
        record = claim.record
        passed_ms = self._state.elapsed_ms(record.granted_wall_ms, record.granted_boot_ms)
        spots = sorted({(grant.node, grant.pool) for grant in record.grants})
        ends = [self._state.system.max_for_ms(spot) for spot in spots]
        most = [end for end in ends if end is not None]
        wanted_ms = passed_ms + frame.for_ms
        for_ms = min([wanted_ms, *most])
        if record.phase == "draining":
            text = f"lease {short_id(record.printed)} is revoked ({record.revoked}): it can't be extended."
        elif record.for_ms is None or wanted_ms <= record.for_ms:
            self._state.tell(session.connection, self._granting.answer(claim, frame.n))
            return
        elif for_ms <= record.for_ms:
            until = clock_text(record.granted_wall_ms + record.for_ms, self._state.settings.utc_offset_s)
            bound = f"max_for {show_duration(min(most))}"
            text = f"lease {short_id(record.printed)} lasts until {until} and its pools allow no later end ({bound})."
        else:
            self._state.extending.setdefault(record.printed, []).append((session.connection, frame.n))
            self._state.to_claimant(Extend(record.claim, for_ms))
            return
        self._state.tell(session.connection, frames.Denied(frame.n, Refused.code, text))

    def extended(self, message: Extended | ExtendRefused) -> None:
        """All pools have the later end, or one allows none that late."""
        claim = self._state.claims.get(message.claim)
        if claim is None:
            return
        if isinstance(message, Extended):
            self._state.change(claim, for_ms=message.for_ms)
        for connection, n in self._state.extending.pop(claim.record.printed, ()):
            if isinstance(message, Extended):
                self._state.tell(connection, self._granting.answer(claim, n))
            else:
                text = "a pool of this lease allows no end that late (max_for). Ask for less."
                self._state.tell(connection, frames.Denied(n, Refused.code, text))

    # ------------------------------------------------------------ inside

    def _care_ms(self, record: ClaimRecord) -> int:
        """How long its pools' commands may keep units from being free after their release, all limits reached."""
        specs = [
            self._state.system.spec(spot)
            for spot in sorted({(grant.node, grant.pool) for grant in record.grants})
        ]
        return max(
            (
                spec.hook_limit_ms * (bool(spec.on_release) + bool(spec.check))
                for spec in specs
                if spec is not None
            ),
            default=0,
        )

    def _given_back(self, record: ClaimRecord, name: str) -> bool:
        """Whether `pool/unit` is a unit, but none of this lease. Units of other nodes have no names here: any may be one."""
        if any(is_named(grant, name, self._state.name_of) for grant in record.grants):
            return False
        text, _, node = name.partition("@")
        pool, _, unit = text.rpartition("/")
        for facts in self._state.system.facts([pool_name(pool)]):
            if pool not in {facts.pool, facts.name} or node not in {"", facts.at, facts.node}:
                continue
            spec = self._state.system.spec(facts.spot)
            if facts.node != self._state.own or (spec is not None and unit in spec.units):
                return True
        return False

    def _keep_only(self, claim: Claim, keep: Sequence[UnitGrant]) -> None:
        record = claim.record
        kept = [
            (grant, need) for grant, need in zip(record.grants, record.serves, strict=True) if grant in keep
        ]
        self._state.change(
            claim, grants=tuple(grant for grant, _ in kept), serves=tuple(need for _, need in kept)
        )


def exit_text(record: frames.ExitRecord) -> str:
    """How a command ended, for the history."""
    if record.signal is not None:
        ended = f"command ended by signal {record.signal}"
    elif record.code is not None:
        ended = f"command ended with {record.code}"
    else:
        return record.reason or "how the command ended is not known"
    return f"{ended} ({record.reason})" if record.reason else ended
