"""What may arrive next of the messages in flight, under each assumption about links.

The messages in flight are one number. Over links that reorder it has a bit for each message, and identical copies of
one message count once. Over links that keep order it has a field for each host, the number of that host's inbox: a
queue for each link. `Mail.bound_for` masks a host's share in both.
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

from holdall.explorer.mail import Mail, bits, subsets
from holdall.machine.contract import Message
from holdall.world.plan import BadWorld

Order: TypeAlias = Literal["any", "fifo"]

FIELD = 32
"""Bits of a host's inbox number where links keep order."""


@runtime_checkable
class Numbered(Protocol):
    """A system whose messages replace earlier ones of the same link; `newest` and `overtaken` ask it."""

    def supersedes(self, older: Message, newer: Message) -> bool:
        """Whether a receiver that has got `newer` over a link ignores `older` from it for ever."""
        ...


class Lost(NamedTuple):
    """A part of the messages in flight to a host that vanishes with it: as bits of messages, and what is left."""

    lost: int
    net: int


class Links(Protocol):
    """The messages in flight of all links."""

    def heads(self, net: int) -> Iterator[tuple[int, int]]:
        """(message that may arrive next, what is in flight then), in a fixed order."""
        ...

    def sent(self, net: int, messages: tuple[int, ...], mask: int) -> int:
        """What is in flight after these were sent, in this order; `mask` has their bits."""
        ...

    def to_host(self, net: int, host: int) -> Iterator[tuple[int, int]]:
        """`heads` of the links to one host."""
        ...

    def losses(self, net: int, host: int) -> Iterator[Lost]:
        """What may be lost of the messages to a host that ends."""
        ...

    def losses_of(self, net: int, host: int) -> Iterator[Lost]:
        """What may be lost of the messages that a host has sent, when it never comes back."""
        ...

    def in_flight(self, net: int) -> tuple[int, ...]:
        """All messages in flight, each once for each copy; over links that keep order in their order."""
        ...


class AnyOrder:
    """Links that reorder: whatever is in flight may arrive next.

    `newest`: sending a message takes the older ones of its link that it supersedes out of flight. An assumption about
    the transport, not a reduction: runs in which an older one arrives between are not looked at.

    `overtaken`: delivering a message takes those out of flight. Keeps every property if receivers ignore them for
    ever; that they are ignored at that moment is asserted by the space, and faults after which they might not be any
    more are refused.
    """

    def __init__(
        self, mail: Mail, numbered: Numbered | None = None, *, newest: bool = False, overtaken: bool = False
    ) -> None:
        self._mail = mail
        self._numbered = numbered
        self._newest = newest
        self._overtaken = overtaken
        self._drops: list[int] = []
        self._ranked = 0

    def heads(self, net: int) -> Iterator[tuple[int, int]]:
        """Every message, ascending."""
        rest = net
        while rest:
            low = rest & -rest
            rest ^= low
            message = low.bit_length() - 1
            yield message, net & ~(low | self.older(message)) if self._overtaken else net ^ low

    def sent(self, net: int, messages: tuple[int, ...], mask: int) -> int:
        """More bits; with `newest` without those that are replaced."""
        if not self._newest:
            return net | mask
        for message in messages:
            net = net & ~self.older(message) | 1 << message
        return net

    def to_host(self, net: int, host: int) -> Iterator[tuple[int, int]]:
        """`heads` of one host."""
        bound = self._mail.bound_for[host]
        return ((message, then) for message, then in self.heads(net) if bound >> message & 1)

    def losses(self, net: int, host: int) -> Iterator[Lost]:
        """Any part, the empty one first."""
        for lost in subsets(net & self._mail.bound_for[host]):
            yield Lost(lost, net & ~lost)

    def losses_of(self, net: int, host: int) -> Iterator[Lost]:
        """Any part, the empty one first."""
        sender_of = self._mail.sender_of
        sent = sum(1 << message for message in bits(net) if sender_of[message] == host)
        for lost in subsets(sent):
            yield Lost(lost, net & ~lost)

    def in_flight(self, net: int) -> tuple[int, ...]:
        """Ascending."""
        return tuple(bits(net))

    def older(self, message: int) -> int:
        """Bits of the messages of its link that this one supersedes, as far as they are known now."""
        if self._ranked < len(self._mail.letters):
            self._rank()
        return self._drops[message]

    def _rank(self) -> None:
        numbered, letters = self._numbered, self._mail.letters
        for new in range(self._ranked, len(letters)):
            self._drops.append(0)
            letter = letters[new]
            for old in range(new if numbered is not None else 0):
                other = letters[old]
                if numbered is None or (other.sender, other.to) != (letter.sender, letter.to):
                    continue
                if numbered.supersedes(other.message, letter.message):
                    self._drops[new] |= 1 << old
                if numbered.supersedes(letter.message, other.message):
                    self._drops[old] |= 1 << new
        self._ranked = len(letters)


Inbox: TypeAlias = tuple[tuple[int, tuple[int, ...]], ...]
"""((sending host, messages in order), …), links without messages left out."""


class Fifo:
    """Links that keep order, as the shipped link does between two processes: only the first of a link may arrive.

    Copies of one message are copies. When a host ends, of each link to it any first part may be lost: what was sent
    to the earlier process and has not arrived; what still waited to be sent goes to the next process.
    """

    def __init__(self, mail: Mail, hosts: int) -> None:
        self._mail = mail
        self._hosts = hosts
        self._inboxes: list[Inbox] = [()]
        self._ids: dict[Inbox, int] = {(): 0}
        self._heads: dict[int, tuple[tuple[int, int], ...]] = {}
        self._added: dict[tuple[int, int], int] = {}
        mail.bound_for[:] = [((1 << FIELD) - 1) << FIELD * host for host in range(hosts)]
        mail.fixed_bounds = True

    def heads(self, net: int) -> Iterator[tuple[int, int]]:
        """The first message of each link, by receiving and by sending host."""
        for host in range(self._hosts):
            yield from self.to_host(net, host)

    def to_host(self, net: int, host: int) -> Iterator[tuple[int, int]]:
        """The first message of each link to this host."""
        inbox = self._inbox_of(net, host)
        if not inbox:
            return
        heads = self._heads.get(inbox)
        if heads is None:
            queues = self._inboxes[inbox]
            heads = self._heads[inbox] = tuple(
                (queue[0], self._number(_without_first(queues, place)))
                for place, (_, queue) in enumerate(queues)
            )
        for message, then in heads:
            yield message, self._with(net, host, then)

    def sent(self, net: int, messages: tuple[int, ...], mask: int) -> int:
        """Each at the end of its link's queue."""
        for message in messages:
            host = self._mail.host_of[message]
            inbox = self._inbox_of(net, host)
            then = self._added.get((inbox, message))
            if then is None:
                queues = dict(self._inboxes[inbox])
                sender = self._mail.sender_of[message]
                queues[sender] = (*queues.get(sender, ()), message)
                then = self._added[inbox, message] = self._number(tuple(sorted(queues.items())))
            net = self._with(net, host, then)
        return net

    def losses(self, net: int, host: int) -> Iterator[Lost]:
        """Any first part of each link's queue, nothing first."""
        for lost, left in _first_parts(self._inboxes[self._inbox_of(net, host)]):
            yield Lost(lost, self._with(net, host, self._number(left)))

    def losses_of(self, net: int, host: int) -> Iterator[Lost]:
        """Not looked at: the sender would have to say what of a queue had left."""
        raise BadWorld(
            "what is lost with a node that never comes back is looked at over links that reorder; leave --links fifo out"
        )

    def in_flight(self, net: int) -> tuple[int, ...]:
        """By receiving and by sending host, in order."""
        return tuple(
            message
            for host in range(self._hosts)
            for _, queue in self._inboxes[self._inbox_of(net, host)]
            for message in queue
        )

    def _inbox_of(self, net: int, host: int) -> int:
        return net >> FIELD * host & ((1 << FIELD) - 1)

    def _with(self, net: int, host: int, inbox: int) -> int:
        return net & ~self._mail.bound_for[host] | inbox << FIELD * host

    def _number(self, inbox: Inbox) -> int:
        known = self._ids.setdefault(inbox, len(self._inboxes))
        if known == len(self._inboxes):
            self._inboxes.append(inbox)
        return known


def _without_first(inbox: Inbox, place: int) -> Inbox:
    sender, queue = inbox[place]
    left = ((sender, queue[1:]),) if len(queue) > 1 else ()
    return (*inbox[:place], *left, *inbox[place + 1 :])


def _first_parts(inbox: Inbox) -> Iterator[tuple[int, Inbox]]:
    if not inbox:
        yield 0, ()
        return
    sender, queue = inbox[0]
    for lost, left in _first_parts(inbox[1:]):
        mask = lost
        for count in range(len(queue) + 1):
            rest = ((sender, queue[count:]),) if count < len(queue) else ()
            yield mask, (*rest, *left)
            if count < len(queue):
                mask |= 1 << queue[count]
