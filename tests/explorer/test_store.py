"""Packed states: numbered once each, found again, whatever their width; hashes only where that is asked for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall.explorer.packing import Packing
from holdall.explorer.search import Search, explore
from holdall.explorer.space import Space
from holdall.explorer.store import Store, miss_bound
from holdall.world.chain import ChainSystem
from holdall.world.faults import read_faults
from holdall.world.named import named

STATES = st.lists(
    st.tuples(
        st.integers(0, 2**32 - 1),
        st.integers(0, 5),
        st.one_of(st.integers(0, 7), st.integers(0, 2**200)),
        st.integers(0, 2**32 - 1),
    )
)


@pytest.mark.parametrize("compact", [False, True])
@given(states=STATES)
def test_each_state_has_one_number_in_order_of_discovery(
    states: list[tuple[int, ...]], compact: bool
) -> None:
    packing = Packing(2)
    store = Store(packing.width, compact=compact)
    known: dict[tuple[int, ...], int] = {}
    for state in states * 2:
        number = store.number(packing.pack(state))
        assert number == known.setdefault(state, len(known))
        assert store.is_it(number, packing.pack(state))
    assert store.count == len(known)
    for state, number in known.items():
        assert packing.unpack(store.packed(number)) == state


@given(states=STATES)
def test_a_packed_state_is_told_from_every_other_one(states: list[tuple[int, ...]]) -> None:
    packing = Packing(2)
    for state in states:
        packing.pack(state)  # as wide as it gets
    assert len({packing.pack(state) for state in states}) == len(set(states))


def test_many_states_are_told_apart_while_the_table_grows() -> None:
    packing = Packing(1)
    store = Store(packing.width)
    for number in range(20_000):
        assert store.number(packing.pack((number % 7, number, number // 3))) == number
    for number in range(20_000):
        assert store.number(packing.pack((number % 7, number, number // 3))) == number
    assert store.size() / store.count < 30


@pytest.mark.parametrize(("world", "faults"), [("x3opp", ""), ("x2", "crash=1"), ("n1abc", "reboot=1")])
def test_hashes_find_as_many_states_and_say_how_sure_that_is(world: str, faults: str) -> None:
    def space() -> Space:
        return Space(ChainSystem(named(world)), read_faults(faults))

    exact, compact = explore(space()), explore(space(), compact=True)
    assert (compact.states, compact.transitions, compact.depth) == (
        exact.states,
        exact.transitions,
        exact.depth,
    )
    assert compact.complete
    assert not compact.violations
    assert exact.miss_bound == 0
    assert compact.miss_bound == miss_bound(exact.states) < 1e-10


def test_of_states_that_have_been_looked_at_only_hashes_are_left() -> None:
    store = Store(20, compact=True)
    for number in range(200_000):
        store.number(number.to_bytes(20, "little"))
    full = store.size()
    store.looked_at(150_000)
    assert full - store.size() == 150_000 * 20
    with pytest.raises(LookupError, match="hash only"):
        store.packed(149_999)
    assert store.packed(150_000) == (150_000).to_bytes(20, "little")
    assert store.number((7).to_bytes(20, "little")) == 7


def test_a_violation_is_found_on_the_same_way_with_hashes() -> None:
    from holdall.explorer.mutants.chain import NoWound

    def search(*, compact: bool) -> Search:
        system = ChainSystem(named("x2"), manager=NoWound, settled=False)
        return Search(Space(system, read_faults("")), compact=compact)

    assert search(compact=True).run().violations == search(compact=False).run().violations


def test_states_take_few_bytes() -> None:
    result = explore(Space(ChainSystem(named("x3opp")), read_faults("")))
    assert result.bytes_per_state < 80
