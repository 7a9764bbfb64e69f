"""A machine whose whole state is one frozen value: what all literal machines have in common."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from typing import Generic, Self, TypeVar

import msgspec

from holdall.machine.contract import Effect, Event, ProtocolViolation, Received, Record
from holdall.protocols.vocabulary import LeaseLost

State = TypeVar("State", bound=msgspec.Struct)


class Stateful(ABC, Generic[State]):
    """Lab only. `state` is replaced, never changed; nothing is saved, since the printed algorithms know no crash."""

    state: State

    def start(self) -> Sequence[Effect]:
        """Nothing happens before the first message."""
        return ()

    def recover(self, records: Mapping[str, Record]) -> Sequence[Effect]:
        """The printed algorithms keep nothing, so this is a first start."""
        return self.start()

    def handle(self, event: Event) -> Sequence[Effect]:
        """One message; most of the printed algorithms have no timers, and none has a lease that could be lost."""
        if not isinstance(event, Received):
            raise ProtocolViolation("this printed algorithm sets no timers")
        if isinstance(event.message, LeaseLost):
            return ()
        out: list[Effect] = []
        self.receive(event, out)
        return out

    @abstractmethod
    def receive(self, event: Received, out: list[Effect]) -> None:
        """One message and its answers."""

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        return self.state

    def copy(self) -> Self:
        """An independent twin; the state is frozen and shared."""
        twin = object.__new__(type(self))
        vars(twin).update(vars(self))
        return twin
