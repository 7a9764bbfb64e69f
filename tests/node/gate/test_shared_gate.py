"""The node's gate: several who take under one lease share its rate, all leases of a capacity the root's."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st
from node.gate.scene import run

from holdall.leases.buckets import NS, depth_for, quantum_for
from holdall.model.frames import BYTES_LATE_MS, BytesTaken, TakeBytes
from holdall.node.gate.shared import SharedGate
from holdall.node.gate.way import depth_within
from holdall.parties.location.messages import BytesUsed, Rate


class Town:
    """Leases that a test decides, and a clock that runs at its command."""

    def __init__(self) -> None:
        self.now_ns = NS
        self.rates: dict[str, Rate] = {}
        self.told: list[BytesUsed] = []
        self.gate = SharedGate(self._rate, self.told.append, clock_ns=lambda: self.now_ns)

    def _rate(self, user: str, lease: str, term: str) -> Rate | None:
        return self.rates.get(lease) if (user, term) == ("ann", "net.tx") else None

    def lease(self, name: str, granted: int, *, seconds: int = 60) -> None:
        self.rates[name] = Rate("h1", granted, (self.now_ns + seconds * NS) // 1_000_000)
        self.gate.look()

    async def takes(
        self, connection: str, lease: str, size: int, *, unused: int = 0, denied: int = 0, user: str = "ann"
    ) -> int:
        ask = TakeBytes(1, lease, "net.tx", size, unused, denied)
        taking = asyncio.ensure_future(self.gate.take(connection, user, ask))
        for _ in range(5):
            await asyncio.sleep(0)
        if not taking.done():
            # It waits for credit; the test's clock stands still.
            taking.cancel()
            await asyncio.gather(taking, return_exceptions=True)
            return 0
        taken = taking.result()
        assert isinstance(taken, BytesTaken)
        return taken.size


def test_two_who_take_under_one_lease_have_one_bucket() -> None:
    async def story() -> None:
        town = Town()
        town.lease("L1", 100_000)
        depth = depth_within(100_000, BYTES_LATE_MS)
        got = 0
        for _ in range(20):
            got += await town.takes("c1", "L1", 1_000) + await town.takes("c2", "L1", 1_000)
        assert depth - 1_000 < got <= depth
        town.now_ns += NS // 10
        assert await town.takes("c2", "L1", 1_000) == 1_000
        town.gate.close()

    run(story)


def test_what_came_too_late_is_put_back_once_and_only_what_was_taken() -> None:
    async def story() -> None:
        town = Town()
        town.lease("L1", 100_000)
        while await town.takes("c1", "L1", 1_000):
            pass
        town.now_ns += NS // 100
        assert await town.takes("c1", "L1", 1_000) == 1_000
        assert await town.takes("c1", "L1", 1_000, unused=1_000) == 1_000
        assert await town.takes("c1", "L1", 1_000, unused=2_000) == 0
        assert await town.takes("c2", "L1", 1_000, unused=1_000) == 0
        town.now_ns += NS // 100
        assert await town.takes("c1", "L1", 1_000) == 1_000
        town.gate.closed("c1")
        (told,) = town.told
        assert told.uses[0].used.total == town.gate.busiest("h1", "net.tx")
        town.gate.close()

    run(story)


def test_what_is_put_back_when_the_bucket_was_full_again_is_no_credit_beyond_its_depth() -> None:
    async def story() -> None:
        town = Town()
        town.lease("L1", 100_000)
        assert await town.takes("c1", "L1", 1_000) == 1_000
        town.now_ns += 10 * NS
        while await town.takes("c2", "L1", 1_000):
            pass
        assert await town.takes("c1", "L1", 1_000, unused=1_000) == 0
        assert town.gate.busiest("h1", "net.tx") <= depth_within(100_000, BYTES_LATE_MS)
        town.gate.close()

    run(story)


def test_nothing_leaves_without_a_lease_of_one_s_own_and_that_is_counted() -> None:
    async def story() -> None:
        town = Town()
        assert await town.takes("c1", "L1", 10) == 0
        town.lease("L1", 100_000, seconds=1)
        assert await town.takes("c1", "L1", 10, user="bob") == 0
        assert await town.takes("c1", "L1", 10) == 10
        town.now_ns += NS + 1
        assert await town.takes("c1", "L1", 10, denied=2) == 0
        town.gate._tell_all()
        assert (town.told[-1].lease, town.told[-1].uses[0].denied) == ("L1", 2)
        del town.rates["L1"]
        town.gate.look()
        town.gate._tell_all()
        assert town.told[-1].uses[0].state == "completed"
        town.now_ns += 61 * NS
        town.gate._tell_all()
        assert town.gate.busiest("h1", "net.tx") == 0, "it is forgotten"
        town.gate.close()

    run(story)


def test_a_second_question_before_the_answer_takes_nothing() -> None:
    async def story() -> None:
        town = Town()
        town.lease("L1", 100_000)
        while await town.takes("c1", "L1", 1_000):
            pass
        ask = TakeBytes(1, "L1", "net.tx", 1_000)
        first = asyncio.ensure_future(town.gate.take("c1", "ann", ask))
        await asyncio.sleep(0)
        assert await town.gate.take("c1", "ann", ask) == BytesTaken(1)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        town.gate.close()

    run(story)


MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("take"), st.sampled_from("abcd"), st.sampled_from(("L1", "L2", "L3"))),
        st.tuples(st.just("late"), st.sampled_from("abcd"), st.sampled_from(("L1", "L2", "L3"))),
        st.tuples(st.just("pass"), st.just(""), st.integers(1, 300)),
        st.tuples(st.just("share"), st.just(""), st.integers(0, 3)),
    ),
    min_size=20,
    max_size=120,
)
CAPACITY = 1_000_000
SHARINGS = (
    {"L1": 600_000, "L2": 400_000},
    {"L1": 300_000, "L2": 300_000, "L3": 400_000},
    {"L3": 1_000_000},
    {"L1": 10_000, "L2": 990_000},
)


@settings(deadline=None, max_examples=60)
@given(MOVES)
def test_no_second_carries_more_than_the_capacity_and_one_depth(moves: list[tuple[str, str, object]]) -> None:
    """However leases change, whoever takes: counted when pieces may leave at the latest, 20 ms after they were let go."""

    async def story() -> None:
        town = Town()
        let_go: list[tuple[int, int]] = []
        for kind, who, what in [("share", "", 0), *moves]:
            if kind == "pass" and isinstance(what, int):
                town.now_ns += what * 1_000_000
            elif kind == "share" and isinstance(what, int):
                town.rates.clear()
                for name, granted in SHARINGS[what].items():
                    town.rates[name] = Rate("h1", granted, (town.now_ns + 3600 * NS) // 1_000_000)
                town.gate.look()
            elif isinstance(what, str):
                for _ in range(12):
                    size = await town.takes(who, what, 65_536)
                    if not size:
                        break
                    let_go.append((town.now_ns, size))
        town.gate.close()
        late_ns = BYTES_LATE_MS * 1_000_000
        for begun, _ in let_go:
            within = sum(size for at, size in let_go if begun <= at <= begun + NS + late_ns)
            assert within <= CAPACITY + depth_for(CAPACITY, quantum_for(CAPACITY))

    run(story)
