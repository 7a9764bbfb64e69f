"""A lease is judged by what is known of its holder when he renews it: of one who was given a part his groups are not known before."""

from collections.abc import Sequence

from leases.negotiation.test_split import H1, PART, SECOND, host_of, order, split
from leases.negotiation.town import AGENT, LM, gets, wish

from holdall.leases.negotiation import messages as m
from holdall.leases.negotiation.interfaces import Allowed, Asker, Holding, TermAsk

STUDENT = Asker("y/agent", (("group", "students"),))


class NotForStudents:
    def may_have(self, ask: TermAsk, holdings: Sequence[Holding]) -> Allowed:
        del holdings
        return Allowed(0, "no-students") if ("group", "students") in ask.asker.attributes else Allowed()

    def rank(self, host: str) -> int:
        del host
        return 0


def test_who_may_not_have_it_does_not_keep_what_somebody_gave_him() -> None:
    town = host_of(policy=NotForStudents())
    first = gets(town, wish(duration=60_000, net__tx=60_000))
    split(town, order(first.lease, net__tx=25_000))
    renewal = m.RenewLeases(1, (m.Renewal(PART),), 60_000)
    town.send(LM, H1, m.PassOn(1, SECOND, STUDENT, renewal))
    (answer,) = town.hears(SECOND)
    assert isinstance(answer, m.Renewed)
    assert (answer.document, answer.reason, answer.rule) == (None, "policy", "no-students")
    # One who may, may; and is known better from then on.
    teacher = Asker("y/agent", (("group", "teachers"),))
    town.send(LM, H1, m.PassOn(1, SECOND, teacher, renewal))
    (answer,) = town.hears(SECOND)
    assert isinstance(answer, m.Renewed)
    assert answer.document is not None
    assert town.host_manager("h1").book.askers() == (Asker("x/agent"), teacher)


def test_a_part_that_is_given_to_somebody_makes_the_location_forget_nothing_of_him() -> None:
    town = host_of()
    gets(town, wish("r2", net__tx=10_000), SECOND)
    desk = town.location_manager().desk
    desk.asks(STUDENT)
    first = gets(town, wish(net__tx=60_000))
    split(town, order(first.lease, net__tx=25_000))
    assert {one.asker for one in desk.holdings()} == {STUDENT, Asker(str(AGENT))}
    desk.asks(Asker("nobody/agent"))
    assert {one.asker for one in desk.live()} == {STUDENT, Asker(str(AGENT))}
