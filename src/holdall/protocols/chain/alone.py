"""The chain's manager with a book that only counts, as one machine: for explorer, simulator and tests."""

from collections.abc import Mapping
from typing import get_args

from holdall.machine.contract import Record
from holdall.protocols.alone import Alone
from holdall.protocols.chain.manager import Manager
from holdall.protocols.chain.messages import ToManager
from holdall.protocols.chain.rows import Row, without_limits
from holdall.protocols.chain.settling import DEFAULT_SETTINGS, Settings
from holdall.protocols.counting_book import CountingBook
from holdall.protocols.vocabulary import ClaimId, Terms

_MESSAGES: tuple[type, ...] = get_args(ToManager)


class ManagerAlone(Alone[Manager]):
    """The machine. `make` is Manager, or a subclass without one of the rules."""

    def __init__(
        self,
        node: str,
        capacities: Mapping[str, int],
        *,
        epoch: int = 1,
        settings: Settings = DEFAULT_SETTINGS,
        make: type[Manager] = Manager,
    ) -> None:
        book = CountingBook(node, capacities)
        super().__init__(book, make(node, epoch, book, settings), _MESSAGES)

    def units_of(self, record: Record) -> tuple[ClaimId, int, dict[str, int], Terms] | None:
        """Active rows have units."""
        if not isinstance(record, Row) or not record.active:
            return None
        return record.claim, record.attempt, dict(without_limits(record.vector)), record.terms
