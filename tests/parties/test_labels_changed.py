"""The pools of the configuration get other labels while claims hold and wait: nobody is forgotten, nothing given twice."""

import pytest
from parties.party_node import Client, Node, names, pool

from holdall.model import frames

PLAIN = pool("gpu", "0", "1")
LABELLED = pool("gpu", "0", "1", labels={"mem": "80g"})


def granted_in(answers: list[frames.FromNode]) -> list[frames.Granted]:
    return [one for one in answers if isinstance(one, frames.Granted)]


@pytest.mark.parametrize("restarted", [False, True], ids=["reloaded", "restarted"])
def test_who_waits_at_a_pool_that_is_gone_waits_at_the_one_in_its_place_with_its_age(restarted: bool) -> None:
    node = Node(PLAIN)
    holder, first, second = Client(node, "a"), Client(node, "b"), Client(node, "c")
    lease = holder.gets("gpu:2")
    first.waits("gpu:2")
    second.waits("gpu:1")
    if restarted:
        node.pools = (LABELLED,)
        node.crash()
        holder, first, second = (client.returns(f"{client.name}2") for client in (holder, first, second))
    else:
        node.reload(LABELLED)
    node.settle()
    assert [(one.holder, one.needs[0].total) for one in node.ask("queue").waits] == [
        ("b@lab-1", 2),
        ("c@lab-1", 2),
    ]
    node.check_counts()
    holder.releases(lease)
    node.settle()
    assert node.held().keys() == {"gpu/0", "gpu/1"}
    assert [one.holder for one in node.ask("queue").waits] == ["c@lab-1"]
    assert {row.pool for row in node.ask("pools").pools} == {"gpu"}
    node.check_counts()


def test_a_unit_that_is_still_held_under_its_old_labels_is_shown_as_moving() -> None:
    node = Node(PLAIN)
    holder = Client(node, "a")
    lease = holder.gets("gpu:1")
    node.reload(LABELLED)
    rows = {(bool(row.labels), unit.unit): unit for row in node.ask("pools").pools for unit in row.units}
    assert rows[False, "0"].state == "held"
    assert rows[True, "0"].state == "moving"
    assert rows[True, "0"].note == "still in use under the labels that its pool had before"
    holder.releases(lease)
    assert {unit.state for row in node.ask("pools").pools for unit in row.units} == {"free"}
    node.check_counts()


def test_who_waits_for_a_pool_without_successor_waits_on() -> None:
    node = Node(PLAIN)
    holder, waiter = Client(node, "a"), Client(node, "b")
    lease = holder.gets("gpu:1")
    waiter.waits("gpu:2")
    node.reload(pool("psu", "p1"))
    holder.releases(lease)
    node.settle()
    assert len(node.ask("queue").waits) == 1
    node.reload(LABELLED)
    node.settle()
    (granted,) = granted_in(waiter.inbox())
    assert names(granted) == ["gpu/0", "gpu/1"]
    node.check_counts()


def test_a_device_that_waits_for_a_look_under_its_old_labels_is_cleared_by_its_short_name() -> None:
    node = Node(pool("psu", "p1", on_release="off {unit}"))
    client = Client(node, "a")
    client.releases(client.gets("psu:1"))
    node.hook(node.orders[0], ok=False, text="no answer")
    node.reload(pool("psu", "p1", labels={"volt": "12"}))
    client.waits("psu:1")
    answers = client.say(frames.Clear(client.number(), "psu/p1"))
    (cleared,) = [one for one in answers if isinstance(one, frames.Drained)]
    assert "out of quarantine" in cleared.text
    node.settle()
    (granted,) = granted_in([*answers, *client.inbox()])
    assert names(granted) == ["psu/p1"]
