"""What a node announces of its real pools, and that nothing but what was touched is read for it."""

import msgspec
import pytest

from holdall.leases.messages import ClearUnit, DrainUnits, HookDone, PoolSpec, Reload, RunHook
from holdall.leases.units import PoolUnits
from holdall.machine.contract import Address, Boot, Message, Received, Send, TimerFired
from holdall.parties.directory.announcing import PoolSideNews
from holdall.parties.neighbours import PoolNews
from holdall.parties.pool_side import PoolSide
from holdall.protocols.chain.messages import Done, Request, Try
from holdall.protocols.chain.settling import Settings
from holdall.protocols.vocabulary import ClaimId, Terms, Visit

NODE = "lab-1"
AGENT = Address(NODE, "agent")
CLAIMANT = Address(NODE, "claimant")


def spec(name: str, count: int, **fields: object) -> PoolSpec:
    plain = PoolSpec(pool=name, name=name, units=tuple(str(number) for number in range(count)))
    return msgspec.structs.replace(plain, **fields)


class Side:
    """A pool's side, and what would be announced of it."""

    def __init__(self, *pools: PoolSpec) -> None:
        self.side = PoolSide(NODE, pools, settings=Settings(passes=8, passes_per_ahead=1))
        self.side.start()
        self.read = PoolSideNews(self.side)
        assert self.read.take_touched() == []

    def tell(self, sender: Address, message: Message) -> list[Message]:
        effects = self.side.handle(Received(sender, message))
        return [effect.message for effect in effects if isinstance(effect, Send)]

    def ask(self, number: int, *wants: tuple[str, int]) -> ClaimId:
        claim = ClaimId(NODE, 1, number)
        visit = Visit(NODE, (tuple(sorted(wants)),), 1)
        self.tell(CLAIMANT, Request(claim, 1, 1, (visit,), Terms(), None))
        return claim

    def numbers(self, pool: str) -> tuple[int, int, int] | None:
        """(total, free, waiting)."""
        news = self.read.news(pool)
        return None if news is None else (news.total, news.free, news.waiting)


def test_a_pool_is_announced_as_it_is_configured() -> None:
    gpu = spec(
        "gpu", 3, labels=(("vram", "80"),), pool="gpu{vram=80}", reach="host", max_for_ms=7, on_grant="true"
    )
    side = Side(gpu, spec("psu", 1))
    assert side.read.all() == ["gpu{vram=80}", "psu"]
    assert side.read.news("gpu{vram=80}") == PoolNews(
        "gpu{vram=80}", "gpu", (("vram", "80"),), "host", 3, 3, 0, 7, prepares=True
    )
    assert side.read.news("none") is None


def test_granting_waiting_and_ending_touch_exactly_the_pools_of_the_claim() -> None:
    side = Side(spec("gpu", 2), spec("psu", 1), spec("board", 5))
    first = side.ask(1, ("gpu", 2), ("psu", 1))
    assert side.read.take_touched() == ["gpu", "psu"]
    assert (side.numbers("gpu"), side.numbers("psu")) == ((2, 0, 0), (1, 0, 0))
    side.ask(2, ("gpu", 1))
    assert side.read.take_touched() == ["gpu"]
    assert side.numbers("gpu") == (2, 0, 1)
    side.tell(CLAIMANT, Done(first, 1))
    assert side.read.take_touched() == ["gpu", "psu"]
    assert (side.numbers("gpu"), side.numbers("psu")) == ((2, 1, 0), (1, 1, 0))
    assert side.read.take_touched() == []


def test_units_that_leave_and_come_back_without_the_protocol_touch_their_pool() -> None:
    side = Side(spec("gpu", 2, check="test {unit}"), spec("psu", 1))
    claim = side.ask(1, ("gpu", 1))
    side.read.take_touched()
    (order,) = [message for message in side.tell(CLAIMANT, Done(claim, 1)) if isinstance(message, RunHook)]
    assert side.read.take_touched() == ["gpu"]
    assert side.numbers("gpu") == (2, 1, 0)
    side.tell(Address(NODE, "hooks"), HookDone(order.run, ok=False, text="1"))
    side.read.take_touched()
    assert side.numbers("gpu") == (2, 1, 0)
    side.tell(AGENT, ClearUnit("gpu", "0"))
    assert side.read.take_touched() == ["gpu"]
    assert side.numbers("gpu") == (2, 2, 0)


def test_draining_touches_all_and_is_a_state() -> None:
    side = Side(spec("gpu", 2), spec("psu", 1))
    assert side.read.state == "serving"
    side.tell(AGENT, DrainUnits(on=True))
    assert side.read.take_touched() == ["gpu", "psu"]
    assert (side.read.state, side.numbers("gpu")) == ("draining", (2, 0, 0))


def test_a_reload_touches_what_it_brings_and_takes() -> None:
    side = Side(spec("gpu", 2), spec("psu", 1))
    side.ask(1, ("gpu", 1))
    side.read.take_touched()
    side.tell(AGENT, Reload((spec("psu", 2), spec("board", 1))))
    assert side.read.take_touched() == ["board", "gpu", "psu"]
    assert [side.numbers(pool) for pool in ("board", "gpu", "psu")] == [(1, 1, 0), None, (2, 2, 0)]


def test_a_quarantine_is_a_state_until_it_is_over() -> None:
    side = PoolSide(NODE, [spec("gpu", 1)])
    side.recover({"boot": Boot("lost", 3, 3, 60_000)})
    read = PoolSideNews(side)
    assert (read.state, read.epoch) == ("quarantine", 3)
    side.handle(TimerFired("book/quarantine"))
    assert read.state == "serving"


def test_while_nobody_reads_nothing_is_noted() -> None:
    side = PoolSide(NODE, [spec("gpu", 1)])
    side.start()
    side.handle(
        Received(
            CLAIMANT, Request(ClaimId(NODE, 1, 1), 1, 1, (Visit(NODE, ((("gpu", 1),),), 1),), Terms(), None)
        )
    )
    assert side.manager.counts.touched is None


def test_a_twin_has_its_own_list_of_touched_pools() -> None:
    side = Side(spec("gpu", 1))
    side.ask(1, ("gpu", 1))
    twin = side.side.copy()
    assert twin.take_touched() == ["gpu"]
    assert side.read.take_touched() == ["gpu"]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Pools whose free units are counted."""
    counted: list[str] = []
    count = PoolUnits.free_count

    def counting(pool: PoolUnits) -> int:
        counted.append(pool.spec.pool)
        return count(pool)

    monkeypatch.setattr(PoolUnits, "free_count", counting)
    return counted


def test_of_many_pools_a_claim_reads_its_own_only(reads: list[str]) -> None:
    side = Side(*(spec(f"p{number:05}", 1) for number in range(20_000)))
    reads.clear()
    side.ask(1, ("p00007", 1))
    for pool in side.read.take_touched():
        side.read.news(pool)
    assert set(reads) == {"p00007"}
    assert len(reads) <= 4


def test_trying_without_waiting_touches_too() -> None:
    side = Side(spec("gpu", 1))
    side.tell(CLAIMANT, Try(ClaimId(NODE, 1, 1), 1, 1, ((("gpu", 1),),), Terms()))
    assert side.read.take_touched() == ["gpu"]
