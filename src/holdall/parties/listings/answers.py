"""Answers to the questions of clients: the own node's part, and what other nodes have told of theirs.

A question goes through rounds: first every node is asked for its rows; then, where a claim stands in line at further
nodes, those for its places; last the nodes of claims that somebody has told of, for what people call them. A node by
itself has nobody to ask, so it answers at once.
"""

from collections.abc import Iterable, Sequence

import msgspec

from holdall.model import frames
from holdall.model.errors import BadSpec, NotHolder
from holdall.model.names import short_id
from holdall.parties.explaining import Explaining
from holdall.parties.listings.asking import Asking
from holdall.parties.listings.inquiries import Inquiry, Request
from holdall.parties.listings.joining import Joining
from holdall.parties.listings.questions import PeerAnswer, Question
from holdall.parties.listings.rows import WAITING_PHASES, AnyRow, Rows, parts
from holdall.parties.messages import Asked
from holdall.parties.state import PRINTED_LETTERS, Claim, Session, State, secret_hash

ANSWER_BYTES_MAX = 48 * 1024
"""Rows of one Listing; the rest of the frame is far smaller than what is left to 64 KiB."""
HISTORY_MAX = 20
"""Rows of the history that are shown with one claim."""

ID_LETTERS_TOLD = 8
ARG_LETTERS_MAX = 200

ROUNDS = {
    "pools": ("rows", "names"),
    "who": ("rows", "names"),
    "log": ("rows",),
    "queue": ("rows", "places", "names"),
    "why": ("find", "places", "names"),
    "show": ("find",),
}


class Answers:
    """Listings; long ones come in several frames."""

    def __init__(self, state: State, explaining: Explaining, rows: Rows, asking: Asking) -> None:
        self._state = state
        self._explaining = explaining
        self._rows = rows
        self._asking = asking
        self._joining = Joining(state)
        self._encoder = msgspec.msgpack.Encoder()

    def ask(self, session: Session, frame: frames.Ask, asked: Asked) -> None:
        """One question."""
        del asked
        match frame.what:
            case "node":
                row, known = self._node_row(), self._known()
                self._tell(session.connection, [frames.Listing(frame.n, nodes=(row,), known=known)])
            case "usage":
                self._deny(
                    session.connection,
                    frame.n,
                    BadSpec.code,
                    "this node keeps no account of use. See what happened: holdall log",
                )
            case _:
                self._inquire(session, frame)

    def heard(self, peer: str, answer: PeerAnswer) -> None:
        """A piece of a peer's answer; perhaps the last one that was missing."""
        inquiry = self._asking.heard(peer, answer)
        if inquiry is not None:
            self._go_on(inquiry)

    def fired(self, rest: str) -> None:
        """The time of a round is over."""
        inquiry = self._asking.fired(int(rest))
        if inquiry is not None:
            self._go_on(inquiry)

    def explain(self, claim: Claim, *, again: bool = False) -> bool:
        """Ask other nodes for a waiting claim's places there, and what the claims in its way are called.

        Its client is told when that has changed (`again`: in any case). False: this node knows all of it.
        """
        record = claim.record
        if not self.spans(claim) and not any(one.party for one in self._explaining.why(claim).blockers):
            return False
        if again:
            claim.shown = None
        explaining = self._state.inquiries.explaining
        if record.printed not in explaining:
            explaining.add(record.printed)
            request = frames.Ask(record.n, "why", record.printed)
            self._go_on(Inquiry("", request, peers=(), typed=record.printed))
        return True

    def spans(self, claim: Claim) -> bool:
        """Whether the claim has a place, or may get one, on another node."""
        nodes = {share.node for way in claim.record.shares for share in way}
        return not nodes <= {"", self._state.settings.node}

    # ------------------------------------------------------------ other nodes' leases and units

    def elsewhere(self, connection: str, request: Request, typed: str, otherwise: frames.Denied) -> None:
        """Refuse a request, and say where it can be made when another node has what `typed` names.

        `typed`: a key or printed id, or `pool/unit`. A key is sent around as its hash only.
        """
        peers = tuple(known.node for known in self._state.neighbours.nodes())
        if typed.startswith("#"):
            peers = ()  # a request's number in its own connection
        inquiry = Inquiry(
            connection,
            request,
            peers=peers,
            own=False,
            typed=typed,
            key_hash=secret_hash(typed),
            otherwise=otherwise,
        )
        self._go_on(inquiry)

    # ------------------------------------------------------------ rounds

    def _inquire(self, session: Session, frame: frames.Ask) -> None:
        own, peers = True, tuple(known.node for known in self._state.neighbours.nodes())
        if frame.local:
            peers = ()
        elif frame.node:
            node = self._state.neighbours.node_named(frame.node)
            if node is None:
                known = ", ".join((self._state.name, *(one.name for one in self._state.neighbours.nodes())))
                text = f"no node is named {frame.node!r}. Known: {known}"
                self._deny(session.connection, frame.n, BadSpec.code, text)
                return
            own = node == self._state.settings.node
            peers = () if own else (node,)
        if own and frame.what in {"why", "show"} and self._is_here(frame.arg):
            peers = ()
        inquiry = Inquiry(
            session.connection,
            frame,
            peers=peers,
            own=own,
            typed=frame.arg,
            key_hash=secret_hash(frame.arg) if frame.what in {"show", "why"} else "",
        )
        self._go_on(inquiry)

    def _is_here(self, typed: str) -> bool:
        """Whether a claim or lease of this node is called so, and no other of this node."""
        return secret_hash(typed) in self._state.by_key or len(self._state.typed(typed)) == 1

    def _go_on(self, inquiry: Inquiry) -> None:
        """The next round; at once when there is nobody to be asked in it."""
        rounds = ROUNDS[inquiry.request.what] if isinstance(inquiry.request, frames.Ask) else ("find",)
        if not self._state.neighbours.nodes():
            rounds = rounds[:1]  # a node by itself has told all that there is in the first
        while inquiry.round < len(rounds):
            questions = self._questions(inquiry, rounds[inquiry.round])
            inquiry.round += 1
            if self._asking.put(inquiry, questions):
                return
        self._answer(inquiry)

    def _questions(self, inquiry: Inquiry, about: str) -> dict[str, Question]:
        if about == "places":
            return self._joining.unplaced(inquiry)
        if about == "names":
            return self._joining.unnamed(inquiry)
        question = Question("find", arg=told_of(inquiry.typed), key=inquiry.key_hash)
        if about == "rows" and isinstance(inquiry.request, frames.Ask):
            arg, since_ms = inquiry.request.arg, inquiry.request.since_ms
            match inquiry.request.what:
                case "pools" | "who" | "queue" | "log" as what:
                    question = Question(what, arg=arg, since_ms=since_ms)
                case _:
                    pass
        questions = dict.fromkeys(inquiry.peers, question)
        if inquiry.own:
            whole = inquiry.typed if question.what == "find" else question.arg
            questions[self._state.settings.node] = msgspec.structs.replace(question, arg=whole)
        return questions

    # ------------------------------------------------------------ the answer

    def _answer(self, inquiry: Inquiry) -> None:
        request, joining = inquiry.request, self._joining
        if not isinstance(request, frames.Ask):
            self._told_where(inquiry)
            return
        n = request.n
        if not inquiry.connection:
            self._explained(inquiry)
            return
        match request.what:
            case "pools":
                rows = joining.pools(inquiry)
                listings = [frames.Listing(n, pools=part) for part in self._parts(rows)]
            case "who":
                views = joining.leases(inquiry)
                listings = [frames.Listing(n, leases=part) for part in self._parts(views)]
            case "queue":
                waits = joining.waits(inquiry)
                listings = [frames.Listing(n, waits=part) for part in self._parts(waits)]
            case "log":
                log = joining.log(inquiry)
                listings = [frames.Listing(n, log=part) for part in self._parts(log)]
            case _:
                listing = self._single(inquiry, request)
                if listing is None:
                    return
                listings = [listing]
        listings[-1] = msgspec.structs.replace(listings[-1], not_asked=self._asking.not_asked(inquiry))
        self._tell(inquiry.connection, listings)

    def _single(self, inquiry: Inquiry, request: frames.Ask) -> frames.Listing | None:
        """About one claim; of one that has ended what the history says. None: refused."""
        views = self._joining.found(inquiry)
        orphans = [] if views else self._joining.waits(inquiry)
        if len(orphans) == 1 and request.what == "why":
            return frames.Listing(request.n, waits=(orphans[0],))
        if len(views) == 1:
            (view,) = views
            waits = [why for why in self._joining.waits(inquiry) if why.claim == view.lease]
            if request.what == "why" and waits:
                return frames.Listing(request.n, waits=(waits[0],))
            history = self._joining.history(inquiry, view.lease) if request.what == "show" else []
            return frames.Listing(request.n, leases=(view,), log=tuple(history[-HISTORY_MAX:]))
        history = self._joining.history(inquiry)
        ended = {row.lease for row in history} if not views else set[str]()
        if len(ended) == 1:
            return frames.Listing(request.n, log=tuple(history[-HISTORY_MAX:]))
        if number := len(views) or len(ended):
            text = f"{number} claims begin with {request.arg}: write more letters of it. See: holdall who; holdall queue"
        else:
            where = f"on {self._state.name}" if not inquiry.peers else "in the system"
            text = f"no claim or lease {request.arg} {where}{self._but(inquiry)}. See: holdall who; holdall queue"
        self._deny(inquiry.connection, request.n, NotHolder.code, text)
        return None

    def _explained(self, inquiry: Inquiry) -> None:
        self._state.inquiries.explaining.discard(inquiry.typed)
        claim = self._state.by_printed.get(inquiry.typed)
        waits = self._joining.waits(inquiry)
        if claim is None or claim.record.phase not in WAITING_PHASES or not waits or claim.shown == waits[0]:
            return
        claim.shown = waits[0]
        record = claim.record
        self._state.tell_session(record.session, frames.Queued(record.n, record.printed, waits[0]))

    def _told_where(self, inquiry: Inquiry) -> None:
        """The refusal of a request for what another node keeps."""
        denied = inquiry.otherwise
        if denied is None:
            return
        views, units = self._joining.found(inquiry), self._joining.units(inquiry)
        if isinstance(inquiry.request, frames.Clear):
            if units:
                nodes = sorted({self._state.name_of(node) for node, _ in units})
                text = (
                    f"{inquiry.typed} is on {' and '.join(nodes)}, not on {self._state.name}: run it there."
                )
                denied = msgspec.structs.replace(denied, text=text)
        elif len(views) == 1:
            (view,) = views
            what = "claim" if view.state == "waiting" else "lease"
            text = (
                f"{what} {short_id(view.lease)} of {view.holder} was made on {view.node}, "
                f"not on {self._state.name}: run it there."
            )
            denied = msgspec.structs.replace(denied, text=text)
        if inquiry.not_asked:
            denied = msgspec.structs.replace(denied, text=f"{denied.text}{self._but(inquiry)}")
        self._state.tell(inquiry.connection, denied)

    def _but(self, inquiry: Inquiry) -> str:
        """` (not asked: …)` when some node was not."""
        missing = self._asking.not_asked(inquiry)
        return f" (not asked: {', '.join(f'{one.node}, {one.why}' for one in missing)})" if missing else ""

    # ------------------------------------------------------------ the node

    def _node_row(self) -> frames.NodeRow:
        state = self._state
        facts = state.pools.facts()
        waiting = sum(1 for claim in state.by_printed.values() if claim.record.phase in WAITING_PHASES)
        return frames.NodeRow(
            node=state.name,
            pid=state.settings.pid,
            version=state.settings.version,
            since_ms=state.started_wall_ms,
            state=self._rows.node_state(),
            quarantine_ms=self._explaining.quarantine_left_ms(),
            pools=len(facts),
            units=sum(one.total for one in facts),
            leases=len(state.by_printed) - waiting,
            waiting=waiting,
            config=state.settings.config,
            state_folder=state.settings.state_folder,
            address=state.settings.address,
            location=state.settings.location,
        )

    def _known(self) -> tuple[frames.KnownNode, ...]:
        """The other nodes, by name."""
        pools: dict[str, int] = {}
        for one in self._state.neighbours.pools():
            pools[one.node] = pools.get(one.node, 0) + 1
        return tuple(
            frames.KnownNode(
                node=known.name,
                id=known.node,
                state=known.state,
                address=known.address,
                location=known.location,
                silent_ms=known.silent_ms,
                pools=pools.get(known.node, 0),
                version=known.version,
            )
            for known in self._state.neighbours.nodes()
        )

    # ------------------------------------------------------------ frames

    def _parts(self, rows: Iterable[AnyRow]) -> list[tuple[AnyRow, ...]]:
        return parts(rows, ANSWER_BYTES_MAX, self._encoder)

    def _tell(self, connection: str, listings: Sequence[frames.Listing]) -> None:
        for listing in listings[:-1]:
            self._state.tell(connection, msgspec.structs.replace(listing, more=True))
        self._state.tell(connection, listings[-1])

    def _deny(self, connection: str, n: int, code: str, text: str) -> None:
        self._state.tell(connection, frames.Denied(n, code, text))


def told_of(typed: str) -> str:
    """What other nodes are told of what somebody typed: a unit, or the first letters of an id.

    What is too long for an id is a key, of which only the hash leaves this node; and whoever has cut a key short gives
    only a small part of it away.
    """
    if "/" in typed:
        return typed[:ARG_LETTERS_MAX]
    letters = typed.replace("-", "")
    return letters[:ID_LETTERS_TOLD] if len(letters) <= PRINTED_LETTERS else ""
