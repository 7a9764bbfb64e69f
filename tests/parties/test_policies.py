"""What negotiation hears from a policy's file, term by term."""

from holdall.leases.negotiation.interfaces import Allowed, Asker, Holding, TermAsk
from holdall.leases.negotiation.interfaces import Policy as Asked
from holdall.parties.policies import PolicyOfFile, agent_of
from holdall.policy.reading import parse_policy
from holdall.policy.rules import Agent, Now

FILE = """
[[grant]]
who = "group:ci"
may = ["claim"]
pools = ["gpu", "net.tx", "db"]
[[rule]]
name = "office-hours"
deny = ["gpu"]
who = 'agent.role == "student"'
when = 'now.hour < 17'
[[rule]]
name = "half"
limit = "net.tx"
per = "affiliation"
fraction = "1/2"
[[rule]]
name = "short"
limit = "duration"
max = "60 s"
[[rule]]
name = "share"
fair = "net.tx"
group = "affiliation"
[[rule]]
name = "last"
rank = 7
host = "h1"
"""
ANN = Asker("ann", (("affiliation", "vu"), ("group", "ci"), ("group", "hil"), ("role", "student")))
BOB = Asker("bob", (("affiliation", "uni-a"), ("group", "ci")))


def at(hour: int) -> PolicyOfFile:
    return PolicyOfFile(parse_policy(FILE), lambda _zone: Now(2026, 11, 27, 4, hour, 0), scope="host")


def test_it_is_a_policy_for_negotiation() -> None:
    policy: Asked = at(10)
    assert (policy.rank("h1"), policy.rank("h2")) == (7, 0)


def test_attributes_make_an_agent() -> None:
    assert agent_of(ANN) == Agent("ann", "vu", ("ci", "hil"), "student")
    assert agent_of(Asker("eve")) == Agent("eve")


def test_p1_units_are_denied_allowed_or_never_granted() -> None:
    assert at(10).may_have(TermAsk(ANN, "gpu", 2, 1000), ()) == Allowed(0, "office-hours")
    assert at(18).may_have(TermAsk(ANN, "gpu", 2, 1000), ()) == Allowed()
    assert at(10).may_have(TermAsk(Asker("eve"), "gpu", 2, 1000), ()) == Allowed(0, "policy.access")
    assert at(10).may_have(TermAsk(ANN, "db", True, 1000), ()) == Allowed()


def test_a_fraction_less_what_the_affiliation_holds() -> None:
    ask = TermAsk(ANN, "net.tx", 60_000, 1000, 100_000)
    held = [Holding(ANN, "net.tx", 10_000), Holding(BOB, "net.tx", 30_000), Holding(ANN, "gpu", 1)]
    assert at(10).may_have(ask, ()) == Allowed(50_000, "half", group="vu")
    assert at(10).may_have(ask, held) == Allowed(40_000, "half", group="vu")
    assert at(10).may_have(TermAsk(BOB, "net.tx", 15_000, 1000, 100_000), held) == Allowed(group="uni-a")


def test_the_duration_is_a_term_of_its_own() -> None:
    assert at(10).may_have(TermAsk(ANN, "duration", 90_000, 90_000), ()) == Allowed(60_000, "short")
    assert at(10).may_have(TermAsk(ANN, "duration", 60_000, 60_000), ()) == Allowed()


def test_another_policy_is_obeyed_as_a_whole_once_it_is_put_in_force() -> None:
    policy = at(18)
    policy.replace(parse_policy("[[rule]]\nname = 'none'\ndeny = ['*']"))
    assert policy.may_have(TermAsk(ANN, "gpu", 2, 1000), ()) == Allowed(0, "none")
    assert policy.rank("h1") == 0
