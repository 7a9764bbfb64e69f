"""Records of leases as machines save them, and a small account that is fed with them."""

from collections.abc import Mapping, Sequence

from holdall.leases.negotiation.interfaces import Asker
from holdall.leases.negotiation.records import HeldLease
from holdall.leases.records import LeaseRecord
from holdall.machine.contract import Address, Record
from holdall.model.terms import LeaseState, TermStatus
from holdall.node.accounting.intervals import Entries, Ledger, Row, Stretch, Use
from holdall.node.accounting.readers import readers
from holdall.protocols.vocabulary import ClaimId, Terms, UnitGrant

CAPACITY = 100_000


def book_key(number: int) -> str:
    """Of a lease of units in the journal."""
    return f"manager!book/lease/n1.1.{number}/1"


def host_key(number: int) -> str:
    """Of a negotiated lease in the journal."""
    return f"host!lease/hold-{number}"


def units(number: int, *fences: int, active: bool = True, for_ms: int | None = None) -> LeaseRecord:
    """A lease of units `u0`, `u1`, … of `gpu`, named by their fences' remainders."""
    grants = tuple(UnitGrant("n1", "gpu", f"u{fence % 10}", fence) for fence in fences)
    return LeaseRecord(ClaimId("n1", 1, number), 1, grants, Terms(30_000, for_ms, "ann@lab-1"), active=active)


def negotiated(
    number: int,
    amount: int,
    state: LeaseState = "active",
    *,
    lease: str = "L-1",
    revision: int = 1,
    ending: LeaseState | None = None,
) -> HeldLease:
    """A lease of bandwidth, a function and two units, of which the account of negotiated terms takes the first two."""
    terms = (
        TermStatus("net.tx", "capacity", amount, amount),
        TermStatus("service.db", "function", True, True),
        TermStatus("gpu", "pool", 2, 2),
    )
    asker = Asker("bob@lab-2", (("affiliation", "vu"), ("group", "ci")))
    return HeldLease(
        f"hold-{number}",
        state,
        Address("n2", "negotiator"),
        asker,
        "r1",
        {},
        terms,
        2000,
        "p1",
        ending=ending,
        lease=lease,
        revision=revision,
    )


class Bench:
    """A ledger, the rows that it has written, and what would be in the journal."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.records: dict[str, Record] = {}
        self.use: dict[tuple[str, str], Use] = {}
        """What has been measured, by lease and term."""
        self.ledger = self._fresh([])
        self.now_ms = 1_000_000

    def turn(self, saves: Mapping[str, Record | None], *, after_ms: int = 0, why: str = "") -> list[Row]:
        """One turn that is committed; the rows that it wrote. `why`: what is forgotten ends."""
        self.now_ms += after_ms
        ends = {key: why for key, record in saves.items() if record is None and why}
        return self._commit(self.ledger.entries(saves, self.now_ms, ends), saves)

    def restart(self, *, without: Sequence[str] = ()) -> list[Row]:
        """The process dies and comes back; `without`: records that the journal has not any more."""
        kept = self.ledger.open()
        for key in without:
            del self.records[key]
        self.ledger = self._fresh(kept)
        last = max((row.ended_ms for row in self.rows), default=0)
        return self._commit(self.ledger.reconcile(self.records, self.now_ms, last), {})

    def all(self) -> list[Row]:
        """With what is held now."""
        return [*self.rows, *self.ledger.so_far(self.now_ms)]

    def _fresh(self, opened: Sequence[Stretch]) -> Ledger:
        use = self.use
        return Ledger(
            readers(lambda node: f"of-{node}"), lambda lease, term: use.get((lease, term), Use()), opened
        )

    def _commit(self, entries: Entries, saves: Mapping[str, Record | None]) -> list[Row]:
        self.ledger.committed(entries)
        for key, record in saves.items():
            if record is None:
                self.records.pop(key, None)
            else:
                self.records[key] = record
        self.rows += entries.rows
        return list(entries.rows)
