"""Units of a pool whose labels are changed: other pool, same device; never given by both."""

from holdall.leases.book import LeaseBook
from holdall.leases.messages import ClearUnit, DrainUnits, HookDone, PoolSpec, Reload, RunHook
from holdall.leases.units import Unit
from holdall.machine.contract import BOOT_KEY, Boot, Effect, Forget, Record, Save, Send
from holdall.protocols.vocabulary import ClaimId, Terms

HERE, LATER = ClaimId("n0", 1, 1), ClaimId("n0", 1, 2)
TERMS = Terms(ttl_ms=10_000)
OLD = PoolSpec("gpu", "gpu", units=("0", "1"))
NEW = PoolSpec("gpu{mem=80g}", "gpu", units=("0", "1"))


def states(book: LeaseBook, pool: str) -> dict[str, str]:
    return {name: unit.state(draining=False) for name, unit in units(book, pool).items()}


def units(book: LeaseBook, pool: str) -> dict[str, Unit]:
    known = book.service.pools.get(pool)
    return {} if known is None else known.units


def kept(records: dict[str, Record], out: list[Effect]) -> None:
    for effect in out:
        if isinstance(effect, Save):
            records[effect.key] = effect.record
        elif isinstance(effect, Forget):
            records.pop(effect.key, None)


def test_a_held_unit_is_free_under_its_new_labels_when_its_holder_gives_it_back() -> None:
    book = LeaseBook("n0", (OLD,))
    out: list[Effect] = []
    book.set_aside(HERE, 1, {"gpu": 1}, TERMS, out)
    book.told(Reload((NEW,)), out)
    assert book.capacity("gpu") == 1
    assert book.capacity("gpu{mem=80g}") == 1, "only the other one"
    assert states(book, "gpu{mem=80g}") == {"0": "moving", "1": "free"}
    assert [one.unit for one in book.set_aside(LATER, 1, {"gpu{mem=80g}": 1}, TERMS, out)] == ["1"]
    book.give_back(HERE, 1, {}, out)
    assert "gpu" not in book.service.pools
    assert book.capacity("gpu{mem=80g}") == 2
    assert states(book, "gpu{mem=80g}") == {"0": "free", "1": "held"}


def test_labels_changed_and_changed_back_while_the_unit_is_held() -> None:
    book = LeaseBook("n0", (NEW,))
    out: list[Effect] = []
    book.set_aside(HERE, 1, {"gpu{mem=80g}": 2}, TERMS, out)
    book.told(Reload((OLD,)), out)
    assert book.capacity("gpu") == 0
    book.told(Reload((NEW,)), out)
    assert "gpu" not in book.service.pools
    book.give_back(HERE, 1, {}, out)
    assert book.capacity("gpu{mem=80g}") == 2


def test_draining_and_cleaning_keep_the_unit_from_its_new_pool() -> None:
    old = PoolSpec("gpu", "gpu", units=("0",), on_release="off")
    new = PoolSpec("gpu{mem=80g}", "gpu", units=("0",))
    book = LeaseBook("n0", (old,))
    out: list[Effect] = []
    book.set_aside(HERE, 1, {"gpu": 1}, TERMS, out)
    book.give_back(HERE, 1, {}, out)
    (run,) = [e.message.run for e in out if isinstance(e, Send) and isinstance(e.message, RunHook)]
    book.told(Reload((new,)), out)
    book.told(DrainUnits(on=True), out)
    book.told(DrainUnits(on=False), out)
    assert book.capacity("gpu{mem=80g}") == 0
    book.told(HookDone(run, ok=True), out)
    assert book.capacity("gpu{mem=80g}") == 1


def test_a_unit_in_quarantine_stays_there_until_it_is_cleared() -> None:
    old = PoolSpec("gpu", "gpu", units=("0",), on_release="off")
    new = PoolSpec("gpu{mem=80g}", "gpu", units=("0",))
    book = LeaseBook("n0", (old,))
    out: list[Effect] = []
    book.set_aside(HERE, 1, {"gpu": 1}, TERMS, out)
    book.give_back(HERE, 1, {}, out)
    (run,) = [e.message.run for e in out if isinstance(e, Send) and isinstance(e.message, RunHook)]
    book.told(HookDone(run, ok=False, text="no answer"), out)
    book.told(Reload((new,)), out)
    assert (book.capacity("gpu"), book.capacity("gpu{mem=80g}")) == (0, 0)
    records: dict[str, Record] = {}
    kept(records, out)
    again = LeaseBook("n0", (new,))
    more: list[Effect] = []
    again.recover({**records, BOOT_KEY: Boot("same", 1, 2)}, more)
    kept(records, more)
    assert states(again, "gpu{mem=80g}") == {"0": "quarantined"}
    assert [key for key in records if key.startswith("book/unit/")] == ["book/unit/gpu{mem=80g}/0"]
    book.told(ClearUnit("gpu", "0"), out)
    assert book.capacity("gpu{mem=80g}") == 1


def test_labels_changed_while_the_node_was_down() -> None:
    book = LeaseBook("n0", (OLD,))
    out: list[Effect] = []
    book.set_aside(HERE, 1, {"gpu": 1}, TERMS, out)
    records: dict[str, Record] = {BOOT_KEY: Boot("same", 1, 2)}
    kept(records, out)
    again = LeaseBook("n0", (NEW,))
    again.recover(records, out)
    assert again.capacity("gpu{mem=80g}") == 1
    assert states(again, "gpu{mem=80g}") == {"0": "moving", "1": "free"}
    again.give_back(HERE, 1, {}, out)
    assert "gpu" not in again.service.pools
    assert states(again, "gpu{mem=80g}") == {"0": "free", "1": "free"}
