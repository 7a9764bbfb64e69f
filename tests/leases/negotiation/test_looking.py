"""What managers tell to whoever looks: in parts that fit a message, without a change of anything."""

from hypothesis import given
from hypothesis import strategies as st
from leases.negotiation.town import LM, NET, Town, at, gets, wish

from holdall.leases.negotiation import looking
from holdall.leases.negotiation.looking import PART_ROWS_MAX, SEPARATOR, part_of
from holdall.leases.shares import Shares, Wanted

NAMES = st.lists(st.tuples(st.text("ab", max_size=3), st.text("cd", max_size=3)), unique=True, max_size=30)


@given(NAMES, st.integers(0, 20_000))
def test_the_parts_of_a_listing_are_the_listing_in_order(names: list[tuple[str, str]], size: int) -> None:
    rows: list[tuple[str, ...]] = []
    after, parts = "", 0
    named = [("x" + one, two) for one, two in names]
    while True:
        shown, after = part_of(named, lambda name: (*name, "." * size), after)
        rows += [row[:2] for row in shown]
        parts += 1
        if not after:
            break
        assert shown
        assert after == SEPARATOR.join(rows[-1])
    assert rows == sorted(named)
    assert parts <= len(named) + 1


def test_a_part_has_so_many_rows_at_most_and_the_next_begins_after_it() -> None:
    names = [(f"{number:04}",) for number in range(PART_ROWS_MAX + 5)]
    first, after = part_of(names, lambda name: name, "")
    rest, end = part_of(names, lambda name: name, after)
    assert (len(first), len(rest), end) == (PART_ROWS_MAX, 5, "")


def test_shares_are_what_a_renewal_would_give_and_wishes_are_told_until_they_lapse() -> None:
    shares = Shares(100)
    assert shares.ask("ann", "L1", Wanted(100), now_ms=0, duration_ms=1000) == 100
    assert shares.ask("ben", "L2", Wanted(30), now_ms=0, duration_ms=1000) == 0
    assert shares.demands(now_ms=999) == [("ann", "L1"), ("ben", "")]
    before = shares.key()
    ann, ben = shares.demand("ann", "L1"), shares.demand("ben", "")
    assert (ann.place, ann.share, ann.granted, ann.taken) == ("live", 70, 100, 100)
    assert (ben.place, ben.share, ben.granted, ben.wanted.amount) == ("wanted", 30, 0, 30)
    assert shares.key() == before
    assert shares.renew("L1", Wanted(100), now_ms=999) == ann.share
    assert shares.demands(now_ms=1000) == [("ann", "L1")]
    assert shares.demand("ann", "L1").share == 100


def test_a_manager_and_its_hosts_tell_all_leases_and_looking_changes_nothing() -> None:
    town = Town()
    town.location()
    for name in ("h1", "h2"):
        town.host(name, {"net.tx": NET}, {"net.tx": 100_000})
    town.deliver()
    one = gets(town, wish(net__tx=60_000))
    keys = [town.location_manager().key(), town.host_manager(one.host).key()]
    hosts = town.ask(LM, looking.GetHosts())
    assert isinstance(hosts, looking.Hosts)
    assert [(row.host, row.presence) for row in hosts.rows] == [("h1", "live"), ("h2", "live")]
    index, own = town.ask(LM, looking.GetLeases()), town.ask(at(one.host), looking.GetLeases())
    assert isinstance(index, looking.Leases)
    assert isinstance(own, looking.Leases)
    assert [(row.lease, row.state, row.holder) for row in index.documents] == [
        (one.lease, "active", one.holder)
    ]
    assert [row.lease for row in own.documents] == [one.lease]
    shares = town.ask(at(one.host), looking.GetShares())
    assert isinstance(shares, looking.SharesAre)
    assert [(row.lease, row.asked, row.share) for row in shares.rows] == [(one.lease, 60_000, 60_000)]
    (capacity,) = shares.capacities
    assert (capacity.amount, capacity.free, capacity.taken) == (100_000, 40_000, 60_000)
    assert [town.location_manager().key(), town.host_manager(one.host).key()] == keys
