"""Strict limits: a manager that has begun grants nothing new before it knows what each host has given; exact times."""

from collections.abc import Mapping

import msgspec
import pytest
from leases.negotiation.test_failover import BOTH, ELECTION, OTHER, Most, leads, total
from leases.negotiation.town import AGENT, LM, Town, all_arrive, at, gets, lease, offered, wish

from holdall.leases.negotiation import messages as m
from holdall.leases.negotiation.unheard import Unheard
from holdall.model.terms import LeaseDocument

LONGEST_MS = 40_800
"""Leases of 40 s, and 2 %."""
BOTH_HOSTS = ("h1", "h2")


class Hosts:
    """A directory: host -> when it was heard last."""

    def __init__(self, town: Town, *hosts: str) -> None:
        self.town, self.heard = town, dict.fromkeys(hosts, -1)

    def silent_ms(self) -> Mapping[str, int]:
        return {host: 0 if at < 0 else self.town.now_ms - at for host, at in self.heard.items()}

    def name_of(self, host: str) -> str:
        return f"lab-{host}"


def strict_town() -> tuple[Town, Hosts]:
    """Two managers, of which the first leads, and two hosts, of which 50,000 may be had."""
    town = Town()
    hosts = Hosts(town, *BOTH_HOSTS)
    for manager in (LM, OTHER):
        town.location(manager, Most(50_000), strict_ms=LONGEST_MS, expected=hosts)
    for host in BOTH_HOSTS:
        town.host(host, BOTH, {"net.tx": 100_000}, managers=(LM, OTHER))
    leads(town, LM, 2)
    return town, hosts


def town_of() -> tuple[Town, Hosts, LeaseDocument]:
    """Of 50,000 that the location allows all are given by one host; a manager that knows nothing leads, and does not hear that host."""
    town, hosts = strict_town()
    town.passes(3_000)
    first = gets(town, wish("r1", duration=40_000, net__tx=50_000))
    town.dies(LM)
    town.dies(OTHER)
    town.comes_up(OTHER)
    town.lost = lambda sender, _to, _message: sender == at(first.host)
    hosts.heard[first.host] = town.now_ms
    leads(town, OTHER, 3)
    town.hears(AGENT)
    return town, hosts, first


def declined(town: Town, request: m.RequestLease) -> m.Declined:
    (answer,) = town.send(AGENT, OTHER, request)
    assert isinstance(answer, m.Declined), answer
    return answer


def test_nothing_new_is_granted_until_what_the_silent_host_has_given_is_over_to_the_millisecond() -> None:
    town, _, first = town_of()
    # For three heartbeats it is not known who will report, and who asks waits.
    assert town.send(AGENT, OTHER, wish("r2", net__tx=1)) == []
    town.passes(3_000)
    (answer,) = town.hears(AGENT)
    assert answer == m.Declined(
        "r2",
        "limits_unsure",
        text="limits of the location are strict, and its manager has begun anew: it waits for what "
        f"lab-{first.host} may have given, until that is heard again, or for about 41 s since it began. Leases go on. "
        f"If it is gone for good: holdall forget lab-{first.host}",
        retry_after_ms=10_000,
    )
    town.passes(LONGEST_MS - 3_000 - 1)
    assert declined(town, wish("r3", net__tx=1)).reason == "limits_unsure"
    assert town.count(m.Propose) == 2  # those of the first lease, and none since
    town.passes(1)
    second = offered(town.ask(OTHER, wish("r4", duration=10_000, net__tx=50_000)))
    assert lease(town.ask(OTHER, m.AcceptLease(second.lease, 1))).state == "active"
    assert total(town, BOTH_HOSTS) == 50_000


def test_a_host_that_is_heard_again_is_counted_and_nobody_waits_any_more() -> None:
    town, _, _ = town_of()
    town.passes(5_000)
    assert declined(town, wish("r2", net__tx=1)).reason == "limits_unsure"
    town.lost = all_arrive
    town.passes(1_000)
    answer = declined(town, wish("r3", net__tx=1))
    assert (answer.reason, answer.rule) == ("policy", "all-together")


def test_a_host_that_was_removed_is_not_waited_for_and_who_stands_in_line_is_served_then() -> None:
    town, hosts, first = town_of()
    town.passes(3_000)
    request = msgspec.structs.replace(wish("r2", net__tx=20_000).request, wait_ms=60_000)
    (queued,) = town.send(AGENT, OTHER, m.RequestLease(request))
    assert queued == m.Queued("r2", 1, 0, "limits_unsure")
    town.passes(5_000)
    assert town.hears(AGENT) == [queued]
    del hosts.heard[first.host]
    town.passes(1_000)
    (answer,) = town.hears(AGENT)
    assert offered(answer).term("net.tx").granted == 20_000


def test_a_host_that_has_been_silent_for_longer_than_any_lease_is_not_waited_for() -> None:
    town, hosts, first = town_of()
    hosts.heard[first.host] = town.now_ms - LONGEST_MS + 4_000
    town.passes(3_999)
    assert declined(town, wish("r2", net__tx=1)).reason == "limits_unsure"
    town.passes(1)
    assert offered(town.ask(OTHER, wish("r3", net__tx=1))).host != first.host


def test_a_host_of_which_is_heard_only_later_is_waited_for_too_and_leases_go_on() -> None:
    town, hosts, first = town_of()
    del hosts.heard[first.host]
    town.passes(3_000)
    small = gets_at_other(town, wish("r2", duration=10_000, net__tx=10_000))
    hosts.heard[first.host] = town.now_ms
    assert declined(town, wish("r3", net__tx=1)).reason == "limits_unsure"
    (renewed,) = town.send(AGENT, OTHER, m.RenewLeases(1, (m.Renewal(small.lease),), duration=10_000))
    assert isinstance(renewed, m.Renewed)
    assert renewed.document is not None
    assert (renewed.document.revision, renewed.document.remaining_ms) == (2, 10_000)


def gets_at_other(town: Town, request: m.RequestLease) -> LeaseDocument:
    document = offered(town.ask(OTHER, request))
    return lease(town.ask(OTHER, m.AcceptLease(document.lease, document.revision)))


def test_when_all_have_reported_a_new_leader_that_knew_them_serves_at_once() -> None:
    town, _ = strict_town()
    town.passes(1_000)
    town.send(ELECTION, OTHER, m.Lead(3))
    assert offered(town.ask(OTHER, wish("r1", net__tx=40_000))).term("net.tx").granted == 40_000


@pytest.mark.parametrize("strict_ms", [None, LONGEST_MS])
def test_many_hosts_are_named_in_part_and_without_strict_limits_none_is_waited_for(
    strict_ms: int | None,
) -> None:
    town = Town()
    unheard = Unheard(strict_ms, Hosts(town, *(f"h{number}" for number in range(1, 9))))
    unheard.begins([])
    found = unheard.declined("r1", 1_000)
    if strict_ms is None:
        assert found is None
        return
    assert found is not None
    assert "what lab-h1, lab-h2, lab-h3, lab-h4, lab-h5 and 3 more may have given" in found.text
    for number in range(1, 9):
        assert len(unheard.hosts()) == 9 - number > 0
        unheard.reported(f"h{number}")
    assert unheard.declined("r1", 1_000) is None
