"""A lease whose replacement still waits for its units, and something else happens to it: nothing is given twice or kept."""

import pytest
from leases.negotiation.test_split import H1, host_of, order
from leases.negotiation.town import AGENT, LM, Town, gets, wish

from holdall.leases.negotiation import host_messages as h
from holdall.leases.negotiation import messages as m
from holdall.machine.contract import Address, Message
from holdall.protocols.vocabulary import UnitGrant

UNITS = Address("h1", "units")
AGENT_PART = Address("h1", "agent")


def replaced() -> tuple[Town, str, h.WantUnits]:
    """A lease of 60,000 B/s that is to be replaced by one of as much and a unit, which is not there yet."""
    town = host_of(units=UNITS)
    first = gets(town, wish(net__tx=60_000))
    town.send(AGENT, LM, wish("r2", replaces=first.lease, net__tx=60_000, gpu=1))
    (want,) = town.hears(UNITS)
    assert isinstance(want, h.WantUnits)
    return town, first.lease, want


def of_net(town: Town) -> tuple[int, dict[str, int]]:
    shares = town.host_manager("h1").book.allotments.sharings["net.tx"]
    return shares.free, {name: part.taken for name, part in shares.parts.items()}  # type: ignore[attr-defined]


@pytest.mark.parametrize("what", ["split", "renewed", "released", "revoked", "drained"])
def test_whatever_happens_to_a_lease_the_replacement_that_waits_for_units_makes_way(what: str) -> None:
    town, lease, want = replaced()
    said: dict[str, tuple[Address, Address, Message]] = {
        "split": (AGENT, H1, order(lease, net__tx=20_000)),
        "renewed": (AGENT, H1, m.RenewLeases(1, (m.Renewal(lease),), 2_000)),
        "released": (AGENT, H1, m.ReleaseLease(lease)),
        "revoked": (LM, H1, m.Revoke(1, lease, 0, "away")),
        "drained": (AGENT_PART, H1, h.Drain()),
    }
    town.send(*said[what])
    free, parts = of_net(town)
    assert (free, sum(parts.values())) == {"released": (100_000, 0), "revoked": (100_000, 0)}.get(
        what, (40_000, 60_000)
    )
    assert want.party not in parts
    assert town.hears(UNITS) == [h.FreeUnits(want.party)]
    # Its units come late: whoever claims them gives them back, and nothing is proposed.
    before = town.count(m.Proposal)
    town.send(UNITS, H1, h.UnitsAre(want.party, "gpu", (UnitGrant("h1", "gpu", "g1", 5),)))
    assert (town.count(m.Proposal), of_net(town)) == (before, (free, parts))
    town.passes(5_000)
    assert of_net(town) == (100_000, {})


def test_units_that_are_taken_away_before_the_others_have_come_end_the_hold() -> None:
    town, lease, want = replaced()
    town.send(UNITS, H1, h.UnitsLost(want.party, "gpu"))
    refused = [one for _, _, one in town.said if isinstance(one, m.HostRefused)]
    assert [(one.reason, one.term) for one in refused] == [("not_free", "gpu")]
    assert town.hears(UNITS) == [h.FreeUnits(want.party)]
    assert (town.host_manager("h1").book.active(), of_net(town)[0]) == ([lease], 40_000)
