"""Two-resource allocation for unknown participants, the pseudo-code as printed, wrong on purpose. Lab only.

One message is received at a time; then the blocks that wait for a flag (lines 12, 36 and 64) run in the order of
the loop until none of them applies. The head of an empty queue is ⊥, and what is sent to ⊥ is lost. A NewRequest
that comes while `Lock` is set stays in the reception buffer (line 18).
"""

import msgspec

from holdall.machine.contract import Address, Effect, ProtocolViolation, Received, Send
from holdall.protocols.literal.stateful import Stateful
from holdall.protocols.literal.strong_weak_messages import (
    CLIENT,
    RESOURCE,
    Counted,
    Done,
    EndAck,
    KillAck1,
    KillAck2,
    KillLoop,
    NewRequest,
    NewStrong,
    NewStrongAck,
    NoLoop,
    RemoteKillLoop,
    ResAllowed,
    SeekLoop,
    StrongReady,
    Token,
)
from holdall.protocols.vocabulary import ClaimId

NOWHERE = ""
"""⊥ for a resource."""
INFINITE = ""
"""∞ for `rmin`."""
STRONG, WEAK = 1, 2


class StrongWeakRules(msgspec.Struct, frozen=True):
    """One flag for each repair; the names in brackets are the rows of the strong-weak specification."""

    done_target: bool = False
    """Done goes to the other resource of the request that was popped, not of the new head (L1)."""
    holder_sends: bool = False
    """Only who holds the token sends it (L2)."""
    served_leaves: bool = False
    """The served request leaves Qtoken, not the first one (L4)."""
    rmin_local: bool = False
    """A seekLoop starts with its initiator's own priority; rmin is no variable of the resource (L5)."""
    ready_id: bool = False
    """StrongReady names its client, and each client's counts for itself (L6)."""
    seek_again: bool = False
    """Patch for L7: after a kill elsewhere the initiator seeks again until NoLoop comes."""


class Request(msgspec.Struct, frozen=True):
    """An element of a queue."""

    client: ClaimId
    number: int
    """RqNo: 1 strong, 2 weak."""
    next_resource: str
    """NextResId."""


class ResourceState(msgspec.Struct, frozen=True):
    """Variable 2 of the paper, and what this resource has seen go wrong."""

    rmin: str
    holding: bool
    strong: tuple[Request, ...] = ()
    weak: tuple[Request, ...] = ()
    token: tuple[Request, ...] = ()
    """Qtoken."""
    lock: bool = False
    new_head: bool = False
    strong_ready: tuple[ClaimId | None, ...] = ()
    """StrongReady: empty for false; with the repair "ready_id" the clients that are ready."""
    weak_ready: bool = False
    sending: bool = False
    buffer: tuple[NewRequest, ...] = ()
    """Received while locked."""
    has_held: bool = False
    """It has held the token: not printed, and nothing depends on it; a property is judged by it."""
    killing: tuple[ClaimId, ...] = ()
    """Whose KillACK1 are to come: not printed, a property is judged by it."""
    sent: tuple[tuple[tuple[str, Counted], int], ...] = ()
    """How often each message has been sent to each resource: not printed, see `Counted`."""
    wrong: str = ""


class Resource(Stateful[ResourceState]):
    """Algorithms 2 and 3."""

    def __init__(self, name: str, following: str, rules: StrongWeakRules, *, root: bool) -> None:
        """`following`: the next one on the ring; it is the resource itself on a ring of one."""
        self.name = name
        self.rules = rules
        self.state = ResourceState(rmin=name, holding=root, has_held=root)
        self._following = following

    def receive(self, event: Received, out: list[Effect]) -> None:
        """One message, then the flags."""
        self._one(event.sender, event.message, out)
        self._flags(out)
        while self.state.buffer and not self.state.lock:
            first, *rest = self.state.buffer
            self._put(buffer=tuple(rest))
            self._new_request(first, out)
            self._flags(out)

    # Small words

    def _put(self, **more: object) -> None:
        self.state = msgspec.structs.replace(self.state, **more)

    def _head(self) -> Request | None:
        return self.state.strong[0] if self.state.strong else None

    def _send(self, to: str, message: Counted, out: list[Effect]) -> None:
        if to == NOWHERE:
            return
        sent = dict(self.state.sent)
        nth = sent[to, message] = sent.get((to, message), 0) + 1
        self._put(sent=tuple(sorted(sent.items(), key=repr)))
        out.append(Send(Address(to, RESOURCE), msgspec.structs.replace(message, nth=nth - 1)))

    def _tell(self, client: ClaimId, message: msgspec.Struct, out: list[Effect]) -> None:
        out.append(Send(Address(client.node, CLIENT), message))

    # One message

    def _one(self, sender: Address, message: msgspec.Struct, out: list[Effect]) -> None:
        state = self.state
        head = self._head()
        match message:
            case Token():
                strong = tuple(one for one in state.strong if one.number == STRONG)
                self._put(token=(*state.token, *strong), holding=True, has_held=True)
            case NewRequest():
                if state.lock:
                    self._put(buffer=(*state.buffer, message))
                else:
                    self._new_request(message, out)
            case NewStrong(client):
                self._new_strong(client, sender.node, out)
            case StrongReady(client):
                self._put(strong_ready=tuple({*state.strong_ready, client}))
            case Done():
                self._done(out)
            case NewStrongAck():
                self._seek(out)
            case SeekLoop(rmin, rinit):
                self._sought(rmin, rinit, out)
            case NoLoop():
                if head is not None:
                    named = head.client if self.rules.ready_id else None
                    self._send(head.next_resource, StrongReady(named), out)
            case RemoteKillLoop():
                self._kill(out)
            case KillLoop(client):
                self._killed(client, sender.node, out)
            case KillAck1():
                self._rotate(sender.node, out)
            case KillAck2():
                self._put(lock=False)
            case _:
                raise ProtocolViolation(f"{type(message).__name__} is no message for a resource")

    def _new_request(self, asked: NewRequest, out: list[Effect]) -> None:
        """Lines 19 to 33."""
        request = Request(asked.claim, asked.number, asked.next_resource)
        if asked.number == STRONG:
            new_head = self.state.new_head or not self.state.strong
            self._put(strong=(*self.state.strong, request), new_head=new_head)
        else:
            self._put(weak=(*self.state.weak, request))
            self._send(asked.next_resource, NewRequest(asked.claim, STRONG, self.name), out)

    def _new_strong(self, client: ClaimId, sender: str, out: list[Effect]) -> None:
        """Lines 50 to 58."""
        state = self.state
        found = tuple(one for one in state.weak if one.client == client)
        if not found:
            self._put(wrong=f"nothing to move: NewStrong finds no weak request of {client}")
        self._put(
            new_head=self.state.new_head or not state.strong,
            strong=(*state.strong, *found),
            weak=tuple(one for one in state.weak if one.client != client),
        )
        self._send(sender, NewStrongAck(), out)

    def _done(self, out: list[Effect]) -> None:
        """Lines 70 to 84."""
        state, head = self.state, self._head()
        token = state.token
        self._put(strong=state.strong[1:])
        if head is not None and head.number == STRONG:
            if state.holding:
                if self.rules.served_leaves:
                    token = tuple(one for one in token if one.client != head.client)
                else:
                    token = token[1:]
            self._tell(head.client, EndAck(head.client), out)
        else:
            then = head if self.rules.done_target else self._head()
            self._send(then.next_resource if then else NOWHERE, Done(), out)
        sending = not token and (state.holding or not self.rules.holder_sends)
        self._put(token=token, new_head=bool(self.state.strong), sending=sending)

    # Loop breaking

    def _seek(self, out: list[Effect]) -> None:
        """Lines 85 to 90."""
        own = self.name if self.rules.rmin_local else self.state.rmin
        rmin = INFINITE if self.state.holding else own
        if not self.rules.rmin_local:
            self._put(rmin=rmin)
        head = self._head()
        self._send(head.next_resource if head else NOWHERE, SeekLoop(rmin, self.name), out)

    def _sought(self, rmin: str, rinit: str, out: list[Effect]) -> None:
        """Lines 92 to 110. Receiving assigns the variable rmin."""
        head = self._head()
        if self.name == rinit:
            if rmin == self.name:
                self._kill(out)
            else:
                self._send(rmin if rmin != INFINITE else NOWHERE, RemoteKillLoop(), out)
                if self.rules.seek_again:
                    self._seek(out)
        elif head is None or head.next_resource == NOWHERE or head.number == WEAK:
            self._send(rinit, NoLoop(), out)
        else:
            if not self.state.holding and (rmin == INFINITE or rmin > self.name):
                rmin = self.name
            self._send(head.next_resource, SeekLoop(rmin, rinit), out)
        if not self.rules.rmin_local:
            self._put(rmin=rmin)
            if rmin == INFINITE and not self.state.has_held:
                self._put(wrong="rmin: it is infinite where the token has never been")

    def _kill(self, out: list[Effect]) -> None:
        """Lines 97 and 98, 117 and 118."""
        head = self._head()
        self._put(lock=True)
        if head is not None:
            self._put(killing=(*self.state.killing, head.client))
            self._send(head.next_resource, KillLoop(head.client), out)

    def _killed(self, client: ClaimId, sender: str, out: list[Effect]) -> None:
        """Lines 121 to 126."""
        state = self.state
        found = tuple(one for one in state.strong if one.client == client)
        if any(one.number == STRONG for one in found):
            self._put(wrong=f"destroyed: KillLoop moves the strong request of {client} to the weak queue")
        self._put(
            lock=True,
            weak=(*state.weak, *found),
            strong=tuple(one for one in state.strong if one.client != client),
        )
        self._send(sender, KillAck1(), out)

    def _rotate(self, sender: str, out: list[Effect]) -> None:
        """Lines 128 to 133: HeadToTail."""
        state, head = self.state, self._head()
        if head is not None and head.client not in state.killing[:1]:
            self._put(wrong=f"rotated: the request of {head.client} goes to the tail, which was not killed")
        self._send(sender, KillAck2(), out)
        rotated = (*state.strong[1:], *state.strong[:1])
        self._put(strong=rotated, killing=state.killing[1:], new_head=True, lock=False)

    # Flags

    def _flags(self, out: list[Effect]) -> None:
        """Lines 12, 36 and 64, until none applies."""
        while self._token_leaves(out) or self._head_is_new(out) or self._both_ready(out):
            pass

    def _token_leaves(self, out: list[Effect]) -> bool:
        """Lines 12 to 16."""
        if not self.state.sending:
            return False
        if not self.state.holding:
            self._put(wrong="two tokens: a token is sent that was not held")
        self._put(holding=False, sending=False)
        if self._following == self.name:
            self._put(holding=True)
        else:
            self._send(self._following, Token(), out)
        return True

    def _head_is_new(self, out: list[Effect]) -> bool:
        """Lines 36 to 48."""
        if not self.state.new_head:
            return False
        head = self._head()
        self._put(new_head=False)
        if head is None or head.number != STRONG:
            self._put(weak_ready=True)
        elif head.next_resource == NOWHERE:
            self._tell(head.client, ResAllowed(head.client), out)
        else:
            self._send(head.next_resource, NewStrong(head.client), out)
        return True

    def _both_ready(self, out: list[Effect]) -> bool:
        """Lines 64 to 68."""
        head, ready = self.state.strong_ready, self.state.weak_ready
        first = self._head()
        named = first.client if first is not None and self.rules.ready_id else None
        if not ready or named not in head:
            return False
        self._put(strong_ready=tuple(one for one in head if one != named), weak_ready=False)
        if first is not None:
            self._tell(first.client, ResAllowed(first.client), out)
        return True
