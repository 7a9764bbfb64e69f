"""Messages that make no difference any more, because their receiver ignores them for ever: gone as soon as that is so.

A state with such a message in flight behaves like the one without it: its arrival changes nothing, now or later. What a
run can do is the same, but that it takes fewer moves; a loss, a repetition or a wait for an empty network that such a
message alone would bring about is one that changes nothing, either.
"""

from typing import Protocol, runtime_checkable

from holdall.explorer.mail import Mail, bits
from holdall.explorer.table import HostTable
from holdall.machine.contract import Message
from holdall.machine.host import Host


@runtime_checkable
class Ignoring(Protocol):
    """A system that knows which messages its machines ignore; `--reduce ignored` asks it."""

    def ignores(self, host: Host, message: Message) -> bool:
        """Whether this host ignores the message from now on for ever, also after it has come up with what it saved.

        For a node: its line is saved, too. Nobody can lose that who has not lost everything.
        """
        ...


class Ignored:
    """Local state -> the messages that have become nothing with it."""

    def __init__(self, system: Ignoring, mail: Mail, tables: list[HostTable]) -> None:
        self._system = system
        self._mail = mail
        self._tables = tables
        self._masks: list[dict[int, tuple[int, int]]] = [{} for _ in tables]

    def by(self, host: int, local: int) -> int:
        """Bits of the messages to this host that it ignores for ever in this local state."""
        count = len(self._mail.letters)
        mask, looked = self._masks[host].get(local, (0, 0))
        if looked < count:
            machine = self._tables[host].hosts[local]
            for number in bits(self._mail.bound_for[host] >> looked << looked):
                if self._system.ignores(machine, self._mail.letters[number].message):
                    mask |= 1 << number
            self._masks[host][local] = (mask, count)
        return mask
