"""A location's policy counts for renewals, too: its manager tells the host what it lets a lease have, and the host keeps to that."""

from collections.abc import Mapping, Sequence

import pytest
from leases.negotiation.town import AGENT, LM, NET, Town, at, gets, wish

from holdall.leases.negotiation import messages as m
from holdall.leases.negotiation.interfaces import Allowed, Asker, Holding, TermAsk
from holdall.leases.negotiation.records import HeldLease
from holdall.machine.contract import Address, ProtocolViolation, Received, Save, Send
from holdall.model.terms import LeaseDocument, RequestedTerm, TemplateTerm

CPU = TemplateTerm("capacity", "mcpu", min=1, max=8_000)
HOST = at("h1")


class Changing:
    """A policy whose limits change: term, or `duration`, -> what all together may have."""

    def __init__(self) -> None:
        self.most: Mapping[str, int] = {}

    def may_have(self, ask: TermAsk, holdings: Sequence[Holding]) -> Allowed:
        if ask.term not in self.most:
            return Allowed()
        taken = sum(int(one.amount) for one in holdings if one.term == ask.term)
        return Allowed(max(0, self.most[ask.term] - taken), f"most-{ask.term}")

    def rank(self, host: str) -> int:
        del host
        return 0


class Scene:
    """One location with one host, and a lease of 50,000 B/s and 4,000 mcpu for a minute."""

    def __init__(self) -> None:
        self.policy = Changing()
        self.town = Town()
        self.town.location(policy=self.policy)
        self.town.host("h1", {"net.tx": NET, "cpu": CPU}, {"net.tx": 100_000, "cpu": 8_000})
        self.held = gets(self.town, wish("r1", duration=60_000, net__tx=50_000, cpu=4_000))

    def renewed(
        self, to: Address = LM, *, duration: int = 60_000, terms: dict[str, RequestedTerm] | None = None
    ) -> m.Renewed:
        answer = self.town.ask(to, m.RenewLeases(1, (m.Renewal(self.held.lease, terms),), duration))
        assert isinstance(answer, m.Renewed), answer
        return answer

    def granted(self, to: Address = LM) -> tuple[int, ...]:
        document = self.renewed(to).document
        assert document is not None
        return amounts(document)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def amounts(document: LeaseDocument) -> tuple[int, ...]:
    """Revision, net.tx, cpu."""
    return document.revision, *(int(document.term(name).granted) for name in ("net.tx", "cpu"))


def test_a_lease_shrinks_at_its_renewal_and_grows_again_when_the_limit_is_gone(scene: Scene) -> None:
    assert amounts(scene.held) == (1, 50_000, 4_000)
    scene.policy.most = {"net.tx": 20_000}
    assert scene.granted() == (2, 20_000, 4_000)
    scene.policy.most = {}
    assert scene.granted() == (3, 50_000, 4_000)


def test_what_is_not_divided_fairly_shrinks_only_as_far_as_its_holder_has_said(scene: Scene) -> None:
    scene.policy.most = {"cpu": 1_000}
    refused = scene.renewed()
    assert (refused.reason, refused.term, refused.best_possible) == ("worse", "cpu", {"cpu": 1_000})
    answer = scene.renewed(terms={"cpu": RequestedTerm(4_000, floor=500)}).document
    assert answer is not None
    assert amounts(answer) == (2, 50_000, 1_000)


@pytest.mark.parametrize("term", ["net.tx", "cpu"])
def test_a_refusal_names_the_rule_and_leaves_the_lease_as_it_is_also_at_the_host_itself(
    scene: Scene, term: str
) -> None:
    scene.policy.most = {term: 0}
    refused = scene.renewed()
    assert (refused.document, refused.reason, refused.term, refused.rule) == (
        None,
        "policy",
        term,
        f"most-{term}",
    )
    assert refused.best_possible == {term: 0}
    # Who then asks the host, as agents do where no manager answers, hears the same.
    assert scene.renewed(HOST) == refused
    (record,) = scene.town.host_manager("h1").book.held.values()
    assert (record.state, record.revision) == ("active", 1)
    # The manager lets it have more: from its next renewal there the host does, too.
    scene.policy.most = {}
    assert scene.granted() == (2, 50_000, 4_000)
    assert scene.granted(HOST) == (3, 50_000, 4_000)


def test_a_floor_is_kept_or_the_renewal_is_refused(scene: Scene) -> None:
    scene.policy.most = {"net.tx": 20_000}
    asked = {"net.tx": RequestedTerm(50_000, floor=20_001)}
    refused = scene.renewed(terms=asked)
    assert (refused.reason, refused.rule, refused.best_possible) == (
        "policy",
        "most-net.tx",
        {"net.tx": 20_000},
    )
    asked = {"net.tx": RequestedTerm(50_000, floor=20_000)}
    answer = scene.renewed(terms=asked).document
    assert answer is not None
    assert amounts(answer) == (2, 20_000, 4_000)


def test_what_a_renewal_asks_for_beyond_what_there_was_is_limited_as_well(scene: Scene) -> None:
    scene.policy.most = {"net.tx": 70_000}
    answer = scene.renewed(terms={"net.tx": RequestedTerm(90_000)}).document
    assert answer is not None
    assert amounts(answer) == (2, 70_000, 4_000)


def test_its_time_is_limited_as_by_the_hosts_own_policy(scene: Scene) -> None:
    scene.policy.most = {"duration": 20_000}
    shorter = scene.renewed()
    assert (shorter.reason, shorter.term, shorter.rule) == ("worse", "duration", "most-duration")
    assert shorter.best_possible == {"duration": 20_000}
    answer = scene.renewed(duration=20_000).document
    assert answer is not None
    assert (answer.revision, answer.duration) == (2, 20_000)
    scene.policy.most = {"duration": 0}
    assert (scene.renewed().reason, scene.renewed(HOST).rule) == ("policy", "most-duration")


def test_leases_of_others_count_and_its_own_does_not(scene: Scene) -> None:
    scene.policy.most = {"cpu": 6_000}
    gets(scene.town, wish("r2", duration=60_000, cpu=2_000), Address("y", "agent"))
    assert scene.granted() == (2, 50_000, 4_000)
    scene.policy.most = {"cpu": 5_000}
    assert scene.renewed().best_possible == {"cpu": 3_000}


def test_while_no_manager_answers_what_it_said_last_counts_and_a_host_that_was_told_nothing_renews(
    scene: Scene,
) -> None:
    scene.policy.most = {"cpu": 0}
    scene.town.dies(LM)
    assert scene.granted(HOST) == (2, 50_000, 4_000)
    scene.town.comes_up(LM)
    scene.town.passes(3_000)
    assert scene.renewed().reason == "policy"
    scene.town.dies(LM)
    assert scene.renewed(HOST).rule == "most-cpu"
    # What was said counts after a restart, too, until something else is said.
    scene.town.dies(HOST)
    scene.town.comes_up(HOST)
    assert scene.renewed(HOST).rule == "most-cpu"
    scene.policy.most = {"cpu": 4_000}
    scene.town.comes_up(LM)
    scene.town.passes(3_000)
    assert scene.granted() == (3, 50_000, 4_000)
    scene.town.dies(LM)
    assert scene.granted(HOST) == (4, 50_000, 4_000)


def test_what_a_manager_says_is_saved_before_anything_is_told_and_not_saved_again(scene: Scene) -> None:
    host, lease = scene.town.host_manager("h1"), scene.held.lease
    asker = Asker(AGENT.node)
    said = m.PassOn(
        host.host.epoch, AGENT, asker, m.GetStatus(lease), (m.LeaseLimits(lease, {"cpu": (0, "most-cpu")}),)
    )
    first, second = (host.copy().handle(Received(LM, said)) for _ in range(2))
    assert first == second
    saved, answer = first
    assert isinstance(saved, Save)
    assert isinstance(saved.record, HeldLease)
    assert (saved.record.lease, saved.record.limits) == (lease, {"cpu": (0, "most-cpu")})
    assert isinstance(answer, Send)
    host.handle(Received(LM, said))
    (again,) = host.handle(Received(LM, said))
    assert isinstance(again, Send)


def test_what_was_said_goes_over_to_what_replaces_the_lease(scene: Scene) -> None:
    scene.policy.most = {"cpu": 0}
    assert scene.renewed().reason == "policy"
    scene.policy.most = {}
    held = scene.held.lease
    gets(scene.town, wish("r2", duration=60_000, replaces=held, net__tx=50_000, cpu=3_000))
    (record,) = (one for one in scene.town.host_manager("h1").book.held.values() if one.state == "active")
    assert (record.lease, record.revision, record.limits) == (held, 2, {"cpu": (0, "most-cpu")})
    assert scene.granted() == (3, 50_000, 3_000)


def test_nobody_but_a_manager_says_what_a_lease_may_have(scene: Scene) -> None:
    forged = m.PassOn(
        1, AGENT, Asker(AGENT.node), m.GetStatus(scene.held.lease), (m.LeaseLimits(scene.held.lease, {}),)
    )
    scene.policy.most = {"cpu": 0}
    assert scene.renewed().reason == "policy"
    with pytest.raises(ProtocolViolation, match="PassOn from x/agent"):
        scene.town.send(AGENT, HOST, forged)
    assert scene.renewed(HOST).reason == "policy"


def test_what_was_said_is_gone_with_its_lease_and_part_of_what_a_twin_knows(scene: Scene) -> None:
    scene.policy.most = {"cpu": 0}
    scene.renewed()
    host = scene.town.host_manager("h1")
    twin = host.copy()
    assert twin.key() == host.key()
    twin.book.lets((m.LeaseLimits(scene.held.lease, {}),), [])
    assert twin.key() != host.key()
    assert [one.limits for one in host.book.held.values()] == [{"cpu": (0, "most-cpu")}]
    scene.town.send(AGENT, HOST, m.ReleaseLease(scene.held.lease))
    scene.town.passes(host.settings.keep_ms)
    assert host.book.held == {}
