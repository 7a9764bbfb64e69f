"""Reductions: what they keep is shown against the whole search, and where they are not sound they refuse."""

from collections.abc import Callable

import msgspec
import pytest
from explorer.lock_server import LockServer

from holdall.explorer.links import AnyOrder, Fifo, Order
from holdall.explorer.mail import Mail
from holdall.explorer.mutants.chain import NoWound
from holdall.explorer.options import Options, read_order, read_reduce
from holdall.explorer.search import Search, explore
from holdall.explorer.space import Space
from holdall.explorer.symmetry import Symmetry
from holdall.explorer.systems import explored, system_of
from holdall.explorer.trace import told
from holdall.machine.contract import Address, Message
from holdall.world.by_pool_worlds import by_pool_worlds
from holdall.world.chain import ChainSystem
from holdall.world.faults import budget, read_faults
from holdall.world.named import named, plan, world
from holdall.world.plan import BadWorld


def chain(name: str, faults: str = "", *reduce: str) -> Space:
    return Options(reduce=reduce).space(ChainSystem(named(name)), read_faults(faults))


# Symmetry


@pytest.mark.parametrize(
    ("name", "faults"),
    [
        ("n1aa", ""),
        ("b1", ""),
        ("gg", ""),
        ("e1u", ""),
        ("n1aa", "crash=1"),
        ("n1aa", "loss=1,duplicate=1"),
        ("lim3", ""),
    ],
)
def test_one_state_of_each_orbit_is_looked_at_and_no_orbit_is_left_out(name: str, faults: str) -> None:
    whole = Search(chain(name, faults))
    assert whole.run().complete
    space = chain(name, faults)
    symmetry = Symmetry(space)
    search = Search(space)
    search.run()
    states = [space.packing.unpack(search.store.packed(number)) for number in range(search.store.count)]
    known = set(states)
    # The reachable states are closed under every exchange, and so are the moves between them.
    for state in states:
        for renaming in symmetry.renamings:
            assert symmetry.exchanged(state, renaming) in known
    for state in states[:: max(1, len(states) // 200)]:
        for renaming in symmetry.renamings:
            here = sorted(symmetry.exchanged(step.state, renaming) for step in space.steps(state))
            assert here == sorted(step.state for step in space.steps(symmetry.exchanged(state, renaming)))
    orbits = {symmetry.canonical(state) for state in states}
    result = explore(chain(name, faults, "symmetry"))
    assert result.complete
    assert not result.violations
    assert result.states == len(orbits) < len(states)


def test_a_violation_found_with_symmetry_is_as_near_and_can_be_followed() -> None:
    plans = [plan("0:ab->1:ab"), plan("1:ab->0:ab"), plan("0:ab->1:ab")]
    made = world("three", "ab", plans)

    def space(*, symmetry: bool) -> Space:
        return Space(ChainSystem(made, manager=NoWound, settled=False), budget(), symmetry=symmetry)

    (whole,) = explore(space(symmetry=False)).violations
    one = space(symmetry=True)
    (violation,) = explore(one).violations
    assert (violation.name, violation.steps) == (whole.name, whole.steps)
    assert len(list(told(one, violation.moves))) == violation.steps


def test_where_names_decide_symmetry_is_refused() -> None:
    def lock(rule: str) -> Space:
        return Space(LockServer(world("lock", "a", ["0:a"] * 3), rule), budget(), symmetry=True)

    assert explore(lock("")).complete
    with pytest.raises(BadWorld, match="not treated alike"):
        explore(lock("names"))


def test_symmetry_is_refused_to_protocols_that_say_that_names_decide() -> None:
    """A sample of states may miss that: it did, for tickets that end in the claim's id."""
    made = by_pool_worlds()["pair"]
    with pytest.raises(BadWorld, match="not treated alike"):
        Space(system_of("game-complete", made), budget(), symmetry=True)
    assert explore(Space(system_of("ordered", made), budget(), symmetry=True)).complete


def test_symmetry_needs_equal_clients() -> None:
    with pytest.raises(BadWorld, match="no two clients"):
        chain("x2", "", "symmetry")
    with pytest.raises(BadWorld, match="no two clients"):
        chain("n1aa@oldest", "", "symmetry")  # they bring ages of their own


# What a newer message of a link makes of older ones


class Counting(msgspec.Struct, frozen=True):
    number: int


class NewestCounts:
    def supersedes(self, older: Message, newer: Message) -> bool:
        return isinstance(older, Counting) and isinstance(newer, Counting) and older.number < newer.number


def three_messages() -> tuple[Mail, list[int]]:
    mail = Mail(("a", "b"))
    numbers = [mail.number(Address("a", "x"), Address("b", "x"), Counting(number)) for number in (1, 2, 3)]
    return mail, numbers


def test_delivering_a_message_takes_those_that_it_has_overtaken_out_of_flight() -> None:
    mail, (one, two, three) = three_messages()
    links = AnyOrder(mail, NewestCounts(), overtaken=True)
    net = links.sent(0, (one, two, three), 0b111)
    assert list(links.heads(net)) == [(one, 0b110), (two, 0b100), (three, 0)]
    later = mail.number(Address("a", "x"), Address("b", "x"), Counting(9))
    assert dict(links.heads(net | 1 << later))[later] == 0


def test_sending_a_message_takes_an_older_ones_place() -> None:
    mail, (one, two, three) = three_messages()
    links = AnyOrder(mail, NewestCounts(), newest=True)
    net = links.sent(0, (one,), 0b1)
    net = links.sent(net, (three,), 0b100)
    assert links.in_flight(net) == (three,)
    # an older one that is sent again later is in flight beside it
    assert links.in_flight(links.sent(net, (two,), 0b10)) == (two, three)


def test_an_ignored_message_that_would_have_made_a_difference_stops_the_search() -> None:
    class Numbered(LockServer):
        """Says of answers that a later one replaces them, which is not so."""

        def supersedes(self, older: Message, newer: Message) -> bool:
            return type(older).__name__ == "Ask" and type(newer).__name__ == "Back"

    made = world("lock", "a", ["0:a", "0:a"])
    with pytest.raises(AssertionError, match="was to be ignored"):
        explore(Space(Numbered(made, "bury"), budget(duplicate=1), overtaken=True))
    assert explore(Space(Numbered(made), budget(duplicate=1), overtaken=True)).complete


def test_a_protocol_that_numbers_nothing_has_no_newest() -> None:
    with pytest.raises(BadWorld, match="numbers no messages"):
        chain("x2", "", "newest")


# Links that keep order


def test_only_the_first_message_of_each_link_may_arrive() -> None:
    mail = Mail(("a", "b", "c"))
    links = Fifo(mail, 3)

    def letter(sender: str, number: int) -> int:
        return mail.number(Address(sender, "x"), Address("b", "x"), Counting(number))

    one, two, other = letter("a", 1), letter("a", 2), letter("c", 1)
    net = links.sent(0, (two, one, other, two), 0)
    assert links.in_flight(net) == (two, one, two, other)
    (first, left), (beside, rest) = links.heads(net)
    assert (first, beside) == (two, other)
    assert links.in_flight(left) == (one, two, other)
    assert links.in_flight(rest) == (two, one, two)
    lost = [links.in_flight(part.net) for part in links.losses(net, 1)]
    assert sorted(lost) == sorted(
        [*((two, one, two)[cut:] + end for cut in range(4) for end in ((other,), ()))]
    )
    assert list(links.losses(net, 0)) == [(0, net)]
    assert links.sent(0, (), 0) == 0


@pytest.mark.parametrize(("name", "states"), [("x2", 212), ("x3", 2086), ("n1abc", 466)])
def test_links_that_keep_order_have_fewer_states_and_no_violation(name: str, states: int) -> None:
    result = explore(Space(ChainSystem(named(name)), budget(), order="fifo"))
    assert result.complete
    assert not result.violations
    assert result.states == states


def test_kills_that_overtake_need_links_that_reorder() -> None:
    from holdall.explorer.mutants.chain import EarlyKillIsDropped

    def space(order: Order) -> Space:
        system = ChainSystem(named("x2"), manager=EarlyKillIsDropped, settled=False)
        return Space(system, budget(), order=order)

    (violation,) = explore(space("any")).violations
    assert violation.name == "deadlock"
    kept = explore(space("fifo"))
    assert kept.complete
    assert not kept.violations


# What the command line takes


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: read_reduce("half"), "no reduction 'half'"),
        (lambda: read_order("lifo"), "fifo"),
        (
            lambda: Options(order="fifo", reduce=("newest",)).space(ChainSystem(named("x2")), budget()),
            "keep order",
        ),
        (lambda: chain("x2", "loss=1", "late"), "no --reduce late"),
    ],
)
def test_what_does_not_go_together_is_refused(call: Callable[[], object], text: str) -> None:
    with pytest.raises(BadWorld, match=text):
        call()


def test_what_each_reduction_keeps_is_said() -> None:
    said = Options(order="fifo", reduce=read_reduce("symmetry, late")).said()
    assert [line.partition(":")[0] for line in said] == ["links keep order", "late", "symmetry"]


@pytest.mark.parametrize("fall", ["crash", "restart", "reboot", "wipe"])
def test_overtaken_is_refused_with_falls(fall: str) -> None:
    system = system_of("game", by_pool_worlds(None)["pair"])
    with pytest.raises(BadWorld, match="leave --reduce overtaken out with crash"):
        Space(system, read_faults(f"{fall}=1"), overtaken=True)


@pytest.mark.parametrize(
    "protocol", ["game", "game-complete", "token", "strong-weak", "lanes", "literal-game"]
)
def test_symmetry_is_refused_where_names_decide(protocol: str) -> None:
    name = next(iter(explored(protocol).worlds(None)))
    system = system_of(protocol, explored(protocol).worlds(None)[name])
    with pytest.raises(BadWorld, match="leave --reduce symmetry out"):
        Space(system, budget(), symmetry=True)
