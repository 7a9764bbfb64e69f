"""Commands around leases, quarantine of units, cooldown, draining, reload: units leave service and come back."""

import pytest
from parties.party_node import Client, Node, names, pool

from holdall.model import frames
from holdall.parties.messages import DrainNode


def states(node: Node) -> dict[str, str]:
    return {f"{row.pool}/{unit.unit}": unit.state for row in node.ask("pools").pools for unit in row.units}


def granted_in(answers: list[frames.FromNode]) -> list[frames.Granted]:
    return [one for one in answers if isinstance(one, frames.Granted)]


def test_a_unit_is_cleaned_and_checked_before_it_is_free_again() -> None:
    node = Node(
        pool("psu", "p1", on_release="labctl off {unit}", check="labctl ping {unit}", hook_limit_ms=9_000)
    )
    client, other = Client(node, "a"), Client(node, "b")
    lease = client.gets("psu:1")
    other.waits("psu:1")

    (released,) = client.say(frames.Release(client.number(), lease.key))

    assert isinstance(released, frames.Released)
    assert released.free_by_ms == 2 * 9_000, "both commands may take their whole time"
    (off,) = node.orders
    assert (off.hook, off.pool, off.unit, off.fence) == ("on_release", "psu", "p1", 1)
    assert (off.command, off.limit_ms, off.claim) == ("labctl off {unit}", 9_000, lease.lease.lease)
    assert states(node) == {"psu/p1": "cleaning"}
    assert node.side.book.capacity("psu") == 0
    assert granted_in(other.inbox()) == []
    node.hook(off)
    (ping,) = node.orders
    assert ping.hook == "check"
    assert granted_in(other.inbox()) == []
    node.hook(ping)
    (granted,) = granted_in(other.inbox())
    assert names(granted) == ["psu/p1"]
    assert node.orders == []
    node.check_counts()


def test_a_failed_command_puts_the_unit_into_quarantine_until_a_person_has_looked() -> None:
    node = Node(pool("psu", "p1", "p2", on_release="off {unit}"))
    client, other = Client(node, "a"), Client(node, "b")
    lease = client.gets("psu:2")
    other.waits("psu:2")
    client.releases(lease)
    first, second = node.orders
    node.hook(first, ok=False, text="exit status 1: no answer")
    node.hook(second)
    assert states(node) == {"psu/p1": "quarantined", "psu/p2": "free"}
    (row,) = node.ask("pools").pools
    assert (row.free, row.held, row.unusable) == (1, 0, 1)
    assert row.units[0].note == "on_release failed: exit status 1: no answer"
    log = node.ask("log").log[-1]
    assert (log.kind, log.text) == ("quarantined", "psu/p1: on_release failed: exit status 1: no answer")
    assert node.ask("queue").waits[0].needs[0].state == "unusable"
    assert other.refused("psu:3").code == "never"
    now = Client(node, "c").refused("psu:2", now=True)
    assert now.text == "not free now: psu:2 unusable. See: holdall pools"

    node.crash()
    assert states(node) == {"psu/p1": "quarantined", "psu/p2": "free"}
    again, operator = other.returns("b2"), Client(node, "op")
    again.say(frames.Claim(n=1, needs=other.claim("psu:2").needs))
    (wrong,) = operator.say(frames.Clear(operator.number(), "psu/p9"))
    assert isinstance(wrong, frames.Denied)
    assert wrong.text == "no unit is named 'psu/p9'; write pool/unit. See: holdall pools"
    (nothing,) = operator.say(frames.Clear(operator.number(), "psu/p2"))
    assert nothing == frames.Drained(2, "psu/p2 is not in quarantine but free: nothing to clear.")
    (cleared,) = operator.say(frames.Clear(operator.number(), "psu/p1"))
    assert isinstance(cleared, frames.Drained)
    (granted,) = granted_in(again.inbox())
    assert names(granted) == ["psu/p1", "psu/p2"]
    assert node.ask("log").log[-2].kind == "cleared" or node.ask("log").log[-1].kind == "cleared"
    node.check_counts()


def test_cleaning_that_was_under_way_starts_again_after_a_crash() -> None:
    node = Node(pool("psu", "p1", on_release="off {unit}"))
    client = Client(node, "a")
    client.releases(client.gets("psu:1"))
    (old,) = node.orders
    node.crash()
    (again,) = node.orders
    assert (again.hook, again.unit, again.command) == (old.hook, old.unit, old.command)
    assert states(node) == {"psu/p1": "cleaning"}
    node.hook(again)
    assert states(node) == {"psu/p1": "free"}


def test_the_holder_is_told_only_when_each_unit_is_prepared() -> None:
    node = Node(pool("psu", "p1", on_grant="on {unit}"), pool("gpu", "0"))
    client = Client(node, "a")
    assert client.say(client.claim("psu:1", "gpu:1")) == []
    (order,) = node.orders
    assert (order.hook, order.unit, order.command) == ("on_grant", "p1", "on {unit}")
    assert states(node) == {"gpu/0": "held", "psu/p1": "preparing"}
    assert [view.state for view in node.ask("who").leases] == ["booked"]
    node.hook(order)
    (granted,) = granted_in(client.inbox())
    assert names(granted) == ["gpu/0", "psu/p1"]
    assert states(node)["psu/p1"] == "held"
    assert [view.state for view in node.ask("who").leases] == ["active"]


def test_preparing_starts_again_after_a_crash_and_the_claim_is_told_then() -> None:
    node = Node(pool("psu", "p1", on_grant="on {unit}"))
    client = Client(node, "a")
    frame = client.claim("psu:1")
    client.say(frame)
    node.crash()
    again = client.returns("a2")
    (queued,) = again.say(frame)
    assert isinstance(queued, frames.Queued)
    assert queued.why.note == "its units are being prepared (on_grant)"
    (order,) = node.orders
    node.hook(order)
    (granted,) = granted_in(again.inbox())
    assert (granted.n, names(granted)) == (1, ["psu/p1"])
    assert granted.key


def test_a_unit_that_can_t_be_prepared_is_replaced_by_another_at_the_claims_old_age() -> None:
    node = Node(pool("psu", "p1", "p2", on_grant="on {unit}"))
    client, other = Client(node, "a"), Client(node, "b")
    client.say(client.claim("psu:1"))
    (first,) = node.orders
    node.hook(first, ok=False, text="exit status 1")
    assert states(node) == {"psu/p1": "quarantined", "psu/p2": "preparing"}
    (second,) = node.orders
    assert second.unit == "p2"
    node.hook(second)
    (granted,) = granted_in(client.inbox())
    assert names(granted) == ["psu/p2"]
    # in line again at its age: before a younger one
    client.releases(granted)
    client.inbox()
    frame, younger = client.claim("psu:1"), other.claim("psu:1")
    client.say(frame)
    other.say(younger)
    (third,) = node.orders
    node.hook(third, ok=False, text="exit status 1")
    printed = node.agent.state.by_printed
    assert [printed[why.claim].record.n for why in node.ask("queue").waits] == [frame.n, younger.n]
    operator = Client(node, "op")
    operator.say(frames.Clear(operator.number(), "psu/p2"))
    node.hook(node.orders[0])
    assert [one.n for one in granted_in(client.inbox())] == [frame.n]
    assert granted_in(other.inbox()) == []
    node.check_counts()


def test_a_claim_without_waiting_whose_unit_can_t_be_prepared_is_denied() -> None:
    node = Node(pool("psu", "p1", "p2", on_grant="on {unit}"))
    client = Client(node, "a")
    client.say(client.claim("psu:1", now=True))
    node.hook(node.orders[0], ok=False, text="exit status 1")
    (denied,) = client.inbox()
    assert isinstance(denied, frames.Denied)
    assert denied.code == "not-granted"
    assert "psu/p1 could not be prepared (on_grant failed: exit status 1)" in denied.text
    assert states(node) == {"psu/p1": "quarantined", "psu/p2": "free"}
    node.check_counts()


def test_a_claim_cancelled_while_its_unit_is_prepared_lets_the_command_end_first() -> None:
    node = Node(pool("psu", "p1", on_grant="on {unit}", on_release="off {unit}"))
    client = Client(node, "a")
    frame = client.claim("psu:1")
    client.say(frame)
    client.say(frames.Cancel(client.number(), f"#{frame.n}"))
    assert [order.hook for order in node.orders] == ["on_grant"], "two commands never run at one unit"
    assert states(node) == {"psu/p1": "cleaning"}
    node.hook(node.orders[0])
    assert [order.hook for order in node.orders] == ["on_release"]
    node.hook(node.orders[0])
    assert states(node) == {"psu/p1": "free"}
    node.check_counts()


def test_an_exchange_does_not_add_units_that_have_to_be_prepared() -> None:
    node = Node(pool("psu", "p1", on_grant="on {unit}"), pool("gpu", "0"))
    client = Client(node, "a")
    lease = client.gets("gpu:1")
    (denied,) = client.say(
        frames.Exchange(client.number(), lease.key, client.claim("psu:1").needs, ("gpu/0",))
    )
    assert isinstance(denied, frames.Denied)
    assert denied.code == "refused"


def test_a_unit_cools_down_after_an_unclean_end_only() -> None:
    node = Node(pool("gpu", "0", cooldown_ms=10_000))
    client = Client(node, "a")
    client.releases(client.gets("gpu:1"))
    assert states(node) == {"gpu/0": "free"}
    client.gets("gpu:1")
    client.close(gone=True)
    assert states(node) == {"gpu/0": "cooldown"}
    node.pass_ms(9_000)
    node.crash()
    assert states(node) == {"gpu/0": "cooldown"}
    node.pass_ms(10_000)
    assert states(node) == {"gpu/0": "free"}


def test_a_draining_node_keeps_leases_and_line_and_gives_nothing() -> None:
    node = Node(pool("gpu", "0", "1"))
    client, other = Client(node, "a"), Client(node, "b")
    lease = client.gets("gpu:1")
    queued = other.waits("gpu:2")
    (drained,) = client.say(frames.Drain(client.number()))
    assert drained == frames.Drained(2, "lab-1 gives no units any more; 1 leases go on to their ends.")
    assert states(node) == {"gpu/0": "held", "gpu/1": "draining"}
    assert node.ask("node").nodes[0].state == "draining"
    late = other.waits("gpu:1")
    assert "this node is draining" in late.why.note
    client.releases(lease)
    assert states(node) == {"gpu/0": "draining", "gpu/1": "draining"}
    node.crash()
    assert states(node) == {"gpu/0": "draining", "gpu/1": "draining"}, (
        "a person drained it, a person ends that"
    )
    again, operator = other.returns("b2"), Client(node, "op")
    for n in (queued.n, late.n):
        again.say(frames.Claim(n=n, needs=other.claim("gpu:1").needs))
    operator.say(frames.Drain(operator.number(), on=False))
    assert [one.lease.lease for one in granted_in(again.inbox())] == [queued.claim]
    node.check_counts()


def test_the_driver_drains_before_it_ends() -> None:
    node = Node(pool("gpu", "0"))
    node.tell("agent", "node", DrainNode(on=True, reason="SIGTERM"))
    assert states(node) == {"gpu/0": "draining"}
    row = node.ask("log").log[-1]
    assert (row.kind, row.text) == ("drained", "draining SIGTERM")


def test_a_reload_never_touches_a_held_unit() -> None:
    node = Node(pool("gpu", "0", "1"), pool("psu", "p1"))
    client, other = Client(node, "a"), Client(node, "b")
    lease = client.gets("gpu:1", "psu:1")
    other.waits("gpu:2")

    node.reload(pool("gpu", "1", "2"))

    assert states(node) == {"gpu/0": "held", "gpu/1": "held", "gpu/2": "held", "psu/p1": "held"}
    (granted,) = granted_in(other.inbox())
    assert names(granted) == ["gpu/1", "gpu/2"]
    (view,) = [view for view in node.ask("who").leases if view.lease == lease.lease.lease]
    assert view.units == lease.lease.units
    assert other.refused("psu:1").code == "never"
    node.check_counts()

    node.crash()
    assert {unit.name for view in node.ask("who").leases for unit in view.units} == {"0", "1", "2", "p1"}
    again = client.returns("a2")
    again.releases(lease)
    assert states(node) == {"gpu/1": "held", "gpu/2": "held"}, "removed units went when they came back"
    assert "psu" not in node.side.book.service.pools
    assert node.ask("log").log[-1].kind == "released"
    node.check_counts()


def test_a_unit_that_comes_back_into_the_configuration_stays() -> None:
    node = Node(pool("gpu", "0", "1"))
    client = Client(node, "a")
    lease = client.gets("gpu:1")
    node.reload(pool("gpu", "1"))
    node.reload(pool("gpu", "0", "1"))
    client.releases(lease)
    assert states(node) == {"gpu/0": "free", "gpu/1": "free"}
    node.check_counts()


def test_a_pool_with_thousands_of_units_is_listed_in_frames_of_bounded_size() -> None:
    node = Node(pool("slot", *(f"slot-{number:05}" for number in range(3_000))))
    client = Client(node, "a")
    answers = client.say(frames.Ask(client.number(), "pools"))
    assert len(answers) > 1
    assert [one.more for one in answers if isinstance(one, frames.Listing)] == [True] * (len(answers) - 1) + [
        False
    ]
    units = [
        unit.unit
        for one in answers
        if isinstance(one, frames.Listing)
        for row in one.pools
        for unit in row.units
    ]
    assert units == [f"slot-{number:05}" for number in range(3_000)]
    assert client.refused("slot:257").text.startswith("257 units of 1 pools in one lease; at most 256")
    assert len(client.gets("slot:256").lease.units) == 256


def test_history_is_told_as_it_happens_and_bounded() -> None:
    node = Node(pool("gpu", "0"), log_rows_max=5)
    watcher, client = Client(node, "w"), Client(node, "a")
    watcher.say(frames.Watch(watcher.number()))
    for _ in range(4):
        client.releases(client.gets("gpu:1"))
    told = watcher.inbox()
    assert [one.row.kind for one in told if isinstance(one, frames.Happened)] == ["granted", "released"] * 4
    assert [row.seq for row in node.ask("log").log] == [4, 5, 6, 7, 8]
    assert len([key for key in node.records if key.startswith("agent!log/")]) == 5
    watcher.close(gone=True)
    client.releases(client.gets("gpu:1"))
    assert watcher.inbox() == []
    node.crash()
    client = Client(node, "c")
    client.gets("gpu:1")
    assert [row.seq for row in node.ask("log").log][-1] == 12


def test_log_goes_back_as_far_as_asked() -> None:
    node = Node(pool("gpu", "0"))
    client = Client(node, "a")
    client.releases(client.gets("gpu:1"))
    node.pass_ms(60_000)
    client.gets("gpu:1")
    (listing,) = client.say(frames.Ask(client.number(), "log", since_ms=30_000))
    assert isinstance(listing, frames.Listing)
    assert [row.kind for row in listing.log] == ["granted"]
    assert listing.log[0].units == ("gpu/0#2",)


def test_the_history_names_units_as_the_commands_do_labels_or_not() -> None:
    node = Node(pool("board", "b1", labels={"arch": "arm64"}, on_release="off {unit}"))
    client = Client(node, "a")
    client.releases(client.gets("board,arch=arm64"))
    node.hook(node.orders[0], ok=False, text="exit status 1")
    rows = node.ask("log").log
    assert {unit for row in rows for unit in row.units} == {"board/b1#1"}
    assert rows[-1].text == "board/b1: on_release failed: exit status 1"


@pytest.mark.parametrize("what", ["why", "show"])
def test_an_unknown_id_is_answered_with_the_next_step(what: str) -> None:
    node = Node(pool("gpu", "0"))
    client = Client(node, "a")
    (denied,) = client.say(frames.Ask(client.number(), what, "ZZZZ-ZZ"))  # type: ignore[arg-type]
    assert isinstance(denied, frames.Denied)
    assert denied.text == "no claim or lease ZZZZ-ZZ on lab-1. See: holdall who; holdall queue"


def test_show_of_an_ended_lease_tells_its_history() -> None:
    node = Node(pool("gpu", "0"))
    client = Client(node, "a")
    lease = client.gets("gpu:1")
    client.releases(lease)
    for arg in (lease.key, lease.lease.lease, lease.lease.lease[:6]):
        (listing,) = client.say(frames.Ask(client.number(), "show", arg))
        assert isinstance(listing, frames.Listing)
        assert [row.kind for row in listing.log] == ["granted", "released"]
