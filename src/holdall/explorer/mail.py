"""Numbers for messages: each different one (sender, receiver, content) has one; see `links` for what is in flight."""

from collections.abc import Iterator

import msgspec

from holdall.machine.contract import Address, Received
from holdall.machine.host import Arrival


class Letter(msgspec.Struct, frozen=True):
    """One message between hosts."""

    sender: Address
    to: Address
    message: msgspec.Struct


class Mail:
    """Numbers for messages; grows while the search finds new ones."""

    def __init__(self, hosts: tuple[str, ...]) -> None:
        self.letters: list[Letter] = []
        self.arrivals: list[Arrival] = []
        self.host_of: list[int] = []
        """Message -> number of the receiving host."""
        self.sender_of: list[int] = []
        """Message -> number of the sending host."""
        self.bound_for: list[int] = [0] * len(hosts)
        """Host -> bits of all messages known that go to it; with `fixed_bounds` the field of its inbox."""
        self.fixed_bounds = False
        self._hosts = {name: number for number, name in enumerate(hosts)}
        self._ids: dict[Letter, int] = {}

    def number(self, sender: Address, to: Address, message: msgspec.Struct) -> int:
        """The message's number, new or known."""
        letter = Letter(sender, to, message)
        known = self._ids.get(letter)
        if known is not None:
            return known
        number = len(self.letters)
        host = self._hosts[to.node]
        self._ids[letter] = number
        self.letters.append(letter)
        self.arrivals.append(Arrival(to.part, Received(sender, message)))
        self.host_of.append(host)
        self.sender_of.append(self._hosts[sender.node])
        if not self.fixed_bounds:
            self.bound_for[host] |= 1 << number
        return number


def bits(mask: int) -> Iterator[int]:
    """Numbers of the bits set, ascending."""
    while mask:
        low = mask & -mask
        mask ^= low
        yield low.bit_length() - 1


def subsets(mask: int) -> Iterator[int]:
    """All subsets of a mask, the empty one first."""
    part = 0
    while True:
        yield part
        if part == mask:
            return
        part = (part - mask) & mask
