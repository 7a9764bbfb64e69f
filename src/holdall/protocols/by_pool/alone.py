"""A manager by pool with a book that only counts, as one machine: for explorer, simulator and tests."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from holdall.machine.contract import Effect, Record
from holdall.protocols.alone import Alone
from holdall.protocols.by_pool.manager import Manager
from holdall.protocols.by_pool.messages import Entry, party
from holdall.protocols.counting_book import CountingBook
from holdall.protocols.hooks import Book
from holdall.protocols.vocabulary import ClaimId, Terms

Make: TypeAlias = Callable[[Book], Manager[Any]]


class ManagerAlone(Alone[Manager[Any]]):
    """The machine. `make` builds the manager over the book; `messages` are those that it takes."""

    def __init__(
        self, node: str, capacities: Mapping[str, int], make: Make, messages: tuple[type, ...]
    ) -> None:
        book = CountingBook(node, capacities)
        super().__init__(book, make(book), messages)

    def start(self) -> list[Effect]:
        """The first start, with nothing kept."""
        out: list[Effect] = []
        self.manager.begin(out)
        return out

    def units_of(self, record: Record) -> tuple[ClaimId, int, dict[str, int], Terms] | None:
        """Held entries have units."""
        if not isinstance(record, Entry) or not record.held:
            return None
        return record.claim, party(record.attempt, record.place), {record.pool: record.units}, record.terms
