"""Clients: who is there, over which connection, and what ends when one is silent or gone."""

from holdall.model import frames
from holdall.model.durations import show_duration
from holdall.parties.ends import LEASE_PHASES, Ends
from holdall.parties.explaining import Explaining
from holdall.parties.messages import Asked, SessionClosed, SessionOpened
from holdall.parties.records import SessionRecord
from holdall.parties.state import Claim, Session, State, secret_hash
from holdall.parties.texts import left_by_silence, lost_by_silence

HOLDER_GONE = "holder gone: its process has ended"


class Sessions:
    """Connections come and go; a session lives as long as it has claims or a connection."""

    def __init__(self, state: State, ends: Ends, explaining: Explaining) -> None:
        self._state = state
        self._ends = ends
        self._explaining = explaining

    def opened(self, connection: str, peer: SessionOpened) -> None:
        """A connection; its first frame must be Hello."""
        self._state.connections[connection] = (peer, "")

    def session_of(self, connection: str) -> Session | None:
        """The session that this connection speaks for."""
        known = self._state.connections.get(connection)
        return None if known is None else self._state.sessions.get(known[1])

    # ------------------------------------------------------------ hello and beat

    def hello(self, connection: str, hello: frames.Hello, asked: Asked) -> None:
        """Begin a session, or go on with an earlier one whose secret the client knows."""
        state = self._state
        if hello.v != frames.VERSION:
            text = (
                f"this node speaks version {frames.VERSION} of the conversation, the client {hello.v}. "
                "Use the same release of holdall for both."
            )
            state.tell(connection, frames.Denied(0, "bad-spec", text))
            return
        peer, earlier = state.connections.get(
            connection, (SessionOpened(asked.uid, asked.user, hello.pid), "")
        )
        if earlier:
            state.tell(
                connection, frames.Denied(0, "bad-spec", "Hello again; once in a connection is enough.")
            )
            return
        known = state.sessions.get(hello.session)
        if (
            known is not None
            and known.record.uid == asked.uid
            and known.record.secret_hash == secret_hash(hello.secret)
        ):
            self._resume(connection, peer, known)
            self._welcome(connection, known, hello.secret, resumed=True)
            self._tell_again(known)
            return
        record = SessionRecord(
            session=connection,
            secret_hash=secret_hash(asked.lot),
            uid=asked.uid,
            user=asked.user,
            holder=hello.agent or f"{asked.user}@{state.name}",
            pid=peer.pid or hello.pid,
            started=peer.started,
        )
        session = state.sessions[connection] = Session(record, connection)
        state.connections[connection] = (peer, connection)
        self._welcome(connection, session, asked.lot, resumed=False)

    def heard(self, session: Session) -> None:
        """A frame of the session: all its leases live on from now."""
        session.heard_wall_ms, session.heard_boot_ms = self._state.wall_ms, self._state.boot_ms
        if session.record.unheard_boot_ms:
            self._state.change_session(session, unheard_boot_ms=0)
        for ttl_ms in sorted(session.ttls):
            self._state.arm_silence(session, ttl_ms)

    def beat(self, session: Session, n: int) -> None:
        """Answer with how long each claim, lease and view lives from the sending of the Beat."""
        valid = {
            claim.record.printed: self._explaining.valid_for_ms(claim)
            for claim in self._state.of_session(session)
        }
        for party in session.views:
            claim = self._state.claims.get(party)
            if claim is not None and claim.record.printed not in valid:
                valid[claim.record.printed] = self._explaining.view_left_ms(claim)
        self._state.tell(session.connection, frames.BeatOk(n, tuple(valid.items())))

    # ------------------------------------------------------------ gone

    def closed(self, connection: str, closed: SessionClosed) -> None:
        """The connection has ended, and perhaps its process."""
        state = self._state
        session = self.session_of(connection)
        for watcher in [one for one in state.watchers if one[0] == connection]:
            del state.watchers[watcher]
        if session is None:
            # Never said Hello, or the session goes on over another connection.
            state.connections.pop(connection, None)
            return
        session.connected = False
        if closed.process_gone:
            self.process_gone(session)
        elif not session.claims:
            state.drop(session)

    def process_gone(self, session: Session) -> None:
        """What hangs on the process itself ends now.

        A lease that a guardian has attached waits for its word or for the expiry. Before that no command runs under it, and
        a guardian that comes later is told that the lease is over.
        """
        session.connected = False
        for claim in tuple(self._state.of_session(session)):
            if claim.record.phase not in LEASE_PHASES:
                self._ends.over(claim, "cancelled", HOLDER_GONE)
            elif self._is_the_nodes(claim):
                self._hand_over(claim)
            elif not claim.record.in_guard:
                self._ends.over(claim, "lost", HOLDER_GONE, unclean=True)
        if session.claims:
            self._state.connections.pop(session.connection, None)
        else:
            self._state.drop(session)

    def silent(self, timer: str) -> None:
        """A session was silent for a ttl (1 + rho): what has that ttl is over, as its holder has known before."""
        session_id, _, ttl_text = timer.removeprefix("silent/").rpartition("/")
        session = self._state.sessions.get(session_id)
        if session is None:
            return
        since_ms = session.heard_wall_ms or self._state.wall_ms
        for claim in tuple(self._state.of_session(session)):
            record = claim.record
            if record.ttl_ms != int(ttl_text):
                continue
            if self._is_the_nodes(claim):
                self._hand_over(claim)
                continue
            fences = tuple(grant.fence for grant in record.grants)
            offset_s = self._state.settings.utc_offset_s
            text = lost_by_silence(record.printed, record.ttl_ms, since_ms, fences, offset_s)
            self._ends.silent(claim, text, left_by_silence(record.printed, record.ttl_ms, since_ms, offset_s))
            self._ends.over(
                claim, "expired", f"holder silent for {show_duration(record.ttl_ms)}", unclean=True
            )

    # ------------------------------------------------------------ inside

    def _is_the_nodes(self, claim: Claim) -> bool:
        """A detached lease outlives the client that asked for it."""
        return claim.record.detached and claim.record.phase in {"granted", "draining"}

    def _hand_over(self, claim: Claim) -> None:
        self._state.leave(claim)
        self._state.change(claim, session="")

    def _resume(self, connection: str, peer: SessionOpened, session: Session) -> None:
        old = self._state.connections.get(session.connection)
        if old is not None and session.connection != connection:
            self._state.connections[session.connection] = (old[0], "")
        session.connection = connection
        session.connected = True
        self._state.connections[connection] = (peer, session.record.session)
        if peer.pid and (peer.pid, peer.started) != (session.record.pid, session.record.started):
            self._state.change_session(session, pid=peer.pid, started=peer.started)

    def _welcome(self, connection: str, session: Session, secret: str, *, resumed: bool) -> None:
        settings = self._state.settings
        self._state.tell(
            connection,
            frames.Welcome(
                v=frames.VERSION,
                node=self._state.name,
                session=session.record.session,
                secret=secret,
                resumed=resumed,
                ttl_ms=settings.ttl_ms,
                ttl_max_ms=settings.ttl_max_ms,
                margin_ms=settings.margin_ms,
                rho_ppm=settings.rho_ppm,
                quarantine_ms=self._explaining.quarantine_left_ms(),
                wait_ms=settings.wait_ms,
            ),
        )

    def _tell_again(self, session: Session) -> None:
        """Revocations may have been told to a connection that was gone."""
        for claim in self._state.of_session(session):
            if claim.record.phase == "draining":
                text = f"revoked: {claim.record.revoked}. Stop using it and release it."
                self._state.tell(session.connection, frames.Lost(claim.record.printed, text, stop=True))
