"""The agent of a node: speaks with clients on one side and with claimant and pools on the other.

It decides nothing about who is served first; it keeps the sessions, makes claims out of requests and leases out of
grants, ends what nobody renews, and answers questions.
"""

from collections.abc import Hashable, Mapping
from copy import deepcopy
from typing import Self

from holdall.leases.messages import Confirmed, LostAt, UnitsBack
from holdall.machine.contract import (
    Address,
    ClockRead,
    Effect,
    Event,
    Message,
    ProtocolViolation,
    Received,
    Record,
    TimerFired,
)
from holdall.model import frames
from holdall.model.run_frames import RunWhere
from holdall.parties.care import Care
from holdall.parties.claims import Claims
from holdall.parties.directory.messages import ForgetDone
from holdall.parties.dismissing import Dismissing
from holdall.parties.ends import Ends
from holdall.parties.exchanging import Exchanging
from holdall.parties.explaining import Explaining
from holdall.parties.finding import Finding
from holdall.parties.granting import Granting
from holdall.parties.holding import Holding
from holdall.parties.inviting import CodeGiven, Inviting
from holdall.parties.life import Losses
from holdall.parties.listings.answering import Answering
from holdall.parties.listings.answers import Answers
from holdall.parties.listings.asking import Asking
from holdall.parties.listings.questions import PeerAnswer, PeerAsk, PeerHappened, PeerMore, PeerWatch
from holdall.parties.listings.rows import Rows
from holdall.parties.listings.watching import Watching
from holdall.parties.messages import (
    SESSION,
    AgentSettings,
    Asked,
    DrainNode,
    Prepared,
    ProcessGone,
    Reload,
    SessionClosed,
    SessionOpened,
    UnitTrouble,
)
from holdall.parties.neighbours import Neighbours, NeighboursChanged
from holdall.parties.nested import Nested
from holdall.parties.parking import Parking
from holdall.parties.reading import AnySide, view_of
from holdall.parties.refusals import Refusals
from holdall.parties.replanning import Replanning
from holdall.parties.returning import Returning
from holdall.parties.revoking import Revoking
from holdall.parties.sessions import Sessions
from holdall.parties.state import Session, State
from holdall.parties.views import AgesView, LifeView
from holdall.parties.whereabouts import Whereabouts
from holdall.protocols.vocabulary import (
    Ended,
    Exchanged,
    ExchangeRefused,
    Extended,
    ExtendRefused,
    Gone,
    Granted,
    NotNow,
    Retrying,
)


class Agent:
    """The machine `agent` of a node.

    Of the node's own pool side (`side`) and of what its directory knows (`neighbours`) it reads only. Without
    neighbours it is a node by itself. `ages` is its claimant: what a claim's age is that has been told to that.
    """

    def __init__(
        self,
        settings: AgentSettings,
        side: AnySide,
        *,
        incarnation: int = 1,
        neighbours: Neighbours | None = None,
        ages: AgesView | None = None,
        life: LifeView | None = None,
    ) -> None:
        state = State(settings, view_of(side), neighbours, ages)
        state.life = life
        self._build(state)
        self.state.incarnation = incarnation

    def _build(self, state: State) -> None:
        self.state = state
        explaining = Explaining(state)
        rows = Rows(state, explaining)
        self._answers = Answers(state, explaining, rows, Asking(state, rows))
        self._answering = Answering(state, rows)
        self._watching = Watching(state, rows)
        refusals = Refusals(state, explaining)
        parking = Parking(state)
        ends = Ends(state, parking)
        granting = Granting(state, ends, explaining)
        revoking = Revoking(state, ends, self._answers)
        self._finding = Finding(state, self._answers)
        self._sessions = Sessions(state, ends, explaining)
        self._replanning = Replanning(state, parking)
        self._claims = Claims(
            state,
            parking=parking,
            ends=ends,
            explaining=explaining,
            granting=granting,
            nested=Nested(state, explaining, refusals),
            refusals=refusals,
            replanning=self._replanning,
            answers=self._answers,
        )
        self._holding = Holding(state, ends=ends, finding=self._finding, granting=granting, revoking=revoking)
        self._exchanging = Exchanging(state, granting, refusals)
        self._revoking = revoking
        self._care = Care(state, self._answers)
        self._dismissing = Dismissing(state)
        self._inviting = Inviting(state)
        self._whereabouts = Whereabouts(state)
        self._returning = Returning(state, parking)
        self._losses = Losses(state)

    # ------------------------------------------------------------ the contract of machines

    def start(self) -> list[Effect]:
        """Nothing is kept: nobody is known."""
        return []

    def handle(self, event: Event) -> list[Effect]:
        """One event of a client, of a neighbour, or of a timer. Raises ProtocolViolation for what is no agent's."""
        self.state.out = []
        match event:
            case TimerFired(timer):
                self._fired(timer)
            case Received(sender, message) if sender.node != self.state.settings.node:
                self._from_peer(sender, message)
            case Received(sender, message) if sender.part.startswith(SESSION):
                self._from_client(sender.part.removeprefix(SESSION), message)
            case Received(_, message):
                self._from_neighbour(message)
        return self.state.out

    def recover(self, records: Mapping[str, Record]) -> list[Effect]:
        """Sessions, claims, leases and history as they were; each lease gets one full ttl (1 + rho)."""
        self.state.out = []
        self._returning.recover(records)
        return self.state.out

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        state = self.state
        return (
            tuple(state.by_printed[printed].record for printed in sorted(state.by_printed)),
            tuple(
                (name, state.sessions[name].record, state.sessions[name].connected)
                for name in sorted(state.sessions)
            ),
            len(state.log),
        )

    def copy(self) -> Self:
        """An independent twin, which reads the same pool side until `see` tells it another."""
        twin = object.__new__(type(self))
        # The views are shared until `see`: what they read is other machines.
        shared = (self.state.pools, self.state.neighbours, self.state.ages, self.state.life)
        twin._build(deepcopy(self.state, {id(view): view for view in shared}))
        return twin

    def see(
        self,
        side: AnySide,
        neighbours: Neighbours | None = None,
        ages: AgesView | None = None,
        life: LifeView | None = None,
    ) -> None:
        """Read this pool side (and these neighbours, this claimant) from now on, after all were copied."""
        self.state.pools = view_of(side)
        self.state.neighbours = neighbours or self.state.neighbours
        self.state.ages = ages or self.state.ages
        self.state.life = life or self.state.life

    # ------------------------------------------------------------ who speaks

    def _from_client(self, connection: str, message: Message) -> None:
        match message:
            case SessionOpened():
                self._sessions.opened(connection, message)
            case SessionClosed():
                self._sessions.closed(connection, message)
            case Asked(frames.Hello() as hello):
                self._sessions.hello(connection, hello, message)
                session = self._sessions.session_of(connection)
                if session is not None:
                    self._sessions.heard(session)
            case Asked():
                session = self._sessions.session_of(connection)
                if session is None:
                    text = "the first frame must be Hello"
                    self.state.tell(connection, frames.Denied(_number(message.frame), "bad-spec", text))
                    return
                self._sessions.heard(session)
                self._frame(session, message)
            case _:
                raise ProtocolViolation(f"{type(message).__name__} is no message of a connection")

    def _frame(self, session: Session, asked: Asked) -> None:
        match asked.frame:
            case frames.Hello():
                pass
            case frames.Claim() as frame:
                self._claims.claim(session, frame, asked)
            case frames.Beat(n):
                self._sessions.beat(session, n)
            case frames.Attach() as frame:
                self._holding.attach(session, frame)
            case frames.Release() as frame:
                self._holding.release(session, frame, asked)
            case frames.Cancel() as frame:
                self._claims.cancel(session, frame, asked)
            case frames.Extend() as frame:
                self._holding.extend(session, frame, asked)
            case frames.Drop() as frame:
                self._holding.drop(session, frame, asked)
            case frames.Exchange() as frame:
                self._exchange(session, frame, asked)
            case frames.Ask() as frame:
                self._answers.ask(session, frame, asked)
            case frames.Watch() as frame:
                self._watching.watch(session, frame)
            case frames.Kick() as frame:
                self._revoking.kick(session, frame, asked)
            case frames.Drain() as frame:
                self._care.drain(session, frame, asked)
            case frames.Clear() as frame:
                self._care.clear(session, frame, asked)
            case frames.Forget() as frame:
                self._dismissing.forget(session, frame, asked)
            case frames.Invite() as frame:
                self._inviting.invite(session, frame, asked)
            case RunWhere() as frame:
                self._whereabouts.where(session, frame)
            case _:  # of a run, a negotiation or a job
                raise ProtocolViolation(f"{type(asked.frame).__name__} is for another part, not for an agent")

    def _exchange(self, session: Session, frame: frames.Exchange, asked: Asked) -> None:
        if not frame.add:
            self._holding.drop(session, frames.Drop(frame.n, frame.key, frame.drop), asked)
            return
        claim = self._finding.held(session, frame.key, frame.n, asked)
        if claim is not None:
            self._exchanging.exchange(claim, session, frame)

    def _from_neighbour(self, message: Message) -> None:
        match message:
            case ClockRead():
                self._returning.clock(message)
            case Granted():
                self._claims.granted(message)
            case Prepared():
                self._claims.prepared(message, self.state.own)
            case NotNow():
                self._claims.not_now(message)
            case Retrying():
                self._claims.retrying(message)
            case LostAt():
                self._losses.lost_at(message)
            case Confirmed():
                for connection, n in self._losses.confirmed(message):
                    self._holding.tell_confirmed(message.claim, connection, n)
            case Gone():
                self._claims.gone(message)
            case Ended():
                self._holding.ended(message)
            case Exchanged():
                self._exchanging.exchanged(message)
            case ExchangeRefused():
                self._exchanging.exchange_refused(message)
            case Extended() | ExtendRefused():
                self._holding.extended(message)
            case UnitsBack(pools):
                self.state.units_freed(pools)
            case NeighboursChanged(_, nodes):
                self._watching.changed(nodes)
                self._replanning.neighbours(message)
            case ForgetDone():
                self._dismissing.done(message)
            case CodeGiven():
                self._inviting.given(message)
            case UnitTrouble():
                self._care.trouble(message)
            case ProcessGone(name):
                session = self.state.sessions.get(name)
                if session is not None and not session.connected:
                    self._sessions.process_gone(session)
            case DrainNode(on, reason):
                self._care.drain_node(on=on, text=reason)
            case Reload():
                self._care.reload(message)
            case _:
                raise ProtocolViolation(f"{type(message).__name__} is no message to an agent")

    def _from_peer(self, sender: Address, message: Message) -> None:
        """Another node, which may say that it is any part of it: it reads listings, and tells what it was asked."""
        peer = sender.node
        match message:
            case PeerAsk():
                self._answering.asked(peer, message)
            case PeerMore():
                self._answering.more(peer, message)
            case PeerAnswer():
                self._answers.heard(peer, message)
            case PeerWatch():
                self._watching.followed(peer, message)
            case PeerHappened():
                self._watching.happened(peer, message)
            case Prepared():
                self._claims.prepared(message, peer)
            case _:
                raise ProtocolViolation(f"{type(message).__name__} from {sender} is not for an agent")

    def _fired(self, timer: str) -> None:
        kind, _, rest = timer.partition("/")
        match kind:
            case "silent":
                self._sessions.silent(timer)
            case "wait":
                self._claims.wait_over(rest)
            case "queued":
                self._claims.look(rest)
            case "prepared":
                self._claims.ask_prepared(rest)
            case "replan":
                self._replanning.replan()
            case "asked":
                self._answers.fired(rest)
            case "served":
                self._answering.fired(rest)
            case "follow":
                self._watching.fired()
            case "follower":
                self._watching.over(rest)
            case "kicked":
                self._revoking.kick_over(rest)
            case _:
                raise ProtocolViolation(f"no timer {timer} is an agent's")


def _number(frame: frames.ToNode) -> int:
    """The request's number; Hello has none."""
    return 0 if isinstance(frame, frames.Hello) else frame.n
