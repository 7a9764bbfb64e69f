from parties.directory_net import Net, Site, agree, system
from parties.directory_one import GPU, PAGE, PEER, messages, own_row, serving, tell

from holdall.machine.contract import Address, Forget, Received, Save, Send
from holdall.parties.directory.messages import (
    ForgetDone,
    ForgetNode,
    Header,
    Leaving,
    MayServe,
    Page,
    Shunned,
    StartRefused,
    Summary,
    Tombstone,
    Tombstones,
    Warned,
    YouAreForgotten,
)
from holdall.parties.neighbours import NeighboursChanged, PoolNews

GPUS = PoolNews("gpu", "gpu", total=2, free=2)


def forget(site: Site, name: str) -> str:
    """What the operator hears; "no: …" when it was not done."""
    site.own(ForgetNode(1, name))
    done = site.to_node.pop()
    assert isinstance(done, ForgetDone)
    assert done.n == 1
    return done.text if done.ok else f"no: {done.text}"


def refusals(site: Site) -> list[str]:
    return [message.text for message in site.to_node if isinstance(message, StartRefused)]


def test_forgetting_saves_tells_and_takes_the_node_out() -> None:
    made = serving(GPU)
    tell(made, PAGE)
    stone = Tombstone("lab-2", "b", "a")
    sender = Address("lab-1", "node")
    effects = made.handle(Received(sender, ForgetNode(7, "b")))
    assert effects == [
        Save("forgotten/lab-2", stone),
        Send(sender, Shunned("lab-2", "b")),
        Send(PEER, YouAreForgotten(stone)),
        Forget("member/lab-2"),
        Send(
            sender,
            ForgetDone(7, True, 'node "b" (key lab-2…, alive, it is told) is forgotten; its name is free'),
        ),
        Send(Address("lab-1", "agent"), NeighboursChanged(("gpu", "psu"), ("lab-2",))),
    ]


def test_a_forgotten_node_hears_it_whatever_it_says_and_nothing_it_says_counts() -> None:
    made = serving(GPU)
    tell(made, PAGE)
    own_row(made)
    made.handle(Received(Address("lab-1", "agent"), ForgetNode(7, "lab-2")))
    before = made.key()
    for message in (Summary(()), Tombstones((Tombstone("lab-3", "c", "b"),))):
        answer = messages(made.handle(Received(PEER, message)))
        assert answer == [YouAreForgotten(Tombstone("lab-2", "b", "a"))]
    assert tell(made, PAGE) == [YouAreForgotten(Tombstone("lab-2", "b", "a"))]
    other = Address("lab-3", "directory")
    assert tell(made, PAGE, peer=other) == []
    assert made.key() == before


def test_forgetting_reaches_all_and_the_name_is_free_at_once() -> None:
    net = Net()
    sites = system(net, 8, GPUS)
    net.kill(sites[5])
    net.run(15_000)
    assert "silent for 1" in forget(sites[1], "n05")
    rest = [site for site in sites if site.up]
    net.rounds_until(lambda: all(site.view.is_forgotten("n05") for site in rest), 8)
    assert all(site.view.node("n05") is None for site in rest)
    assert all(len(site.view.pools(["gpu"])) == 6 for site in rest)
    assert all(site.told(Shunned) == [Shunned("n05", "n05")] for site in rest)
    newcomer = net.add("n05", GPUS, node="new", members=(net.member(sites[0]),))
    newcomer.start()
    net.run(3000)
    assert newcomer.told(MayServe)
    net.rounds_until(lambda: agree([*rest, newcomer]), 10)
    assert sites[0].view.node_named("n05") == "new"
    assert newcomer.view.is_forgotten("n05")


def test_a_node_that_comes_back_after_it_was_forgotten_is_told_and_does_not_serve() -> None:
    net = Net()
    sites = system(net, 3)
    sites[2].own(Leaving())
    net.kill(sites[2])
    net.run(2000)
    assert "stopped" in forget(sites[0], "n02")
    net.run(3000)
    back = net.again(sites[2])
    net.run(5000)
    assert back.told(MayServe) == []
    assert refusals(back) == [
        (
            'this node ("n02") was removed from the system by "holdall forget" at n00: no other node deals with '
            "it. To come back, start with an empty state folder and join again"
        )
    ]
    assert sites[0].view.node("n02") is None
    net.kill(back)
    alone = net.again(back)
    assert refusals(alone) == refusals(back), "it remembers, without asking anybody"


def test_a_node_that_was_forgotten_behind_a_partition_is_told_when_it_heals() -> None:
    net = Net()
    sites = system(net, 4, GPUS)
    net.cut(sites[:3], sites[3:])
    net.run(20_000)
    forget(sites[0], "n03")
    net.run(5000)
    assert len(sites[3].view.nodes()) == 3
    net.cut()
    net.rounds_until(lambda: sites[3].told(Warned) != [], 12)
    assert [message.text[:30] for message in sites[3].to_node if isinstance(message, Warned)] == [
        'this node ("n03") was removed '
    ]
    assert sites[3].view.nodes() == []
    assert sites[3].changes[-1].nodes == ("n00", "n01", "n02")
    net.count()
    net.run(10_000)
    assert all(sender != "n03" for sender, _, _ in net.messages)
    assert agree(sites[:3])


def test_tombstones_of_both_sides_of_a_partition_meet() -> None:
    net = Net()
    sites = system(net, 6)
    for site in sites[4:]:
        net.kill(site)
    net.cut(sites[:2], sites[2:4])
    net.run(20_000)
    forget(sites[0], "n04")
    forget(sites[2], "n05")
    net.run(5000)
    net.cut()
    alive = sites[:4]
    net.rounds_until(
        lambda: all(one.view.is_forgotten("n04") and one.view.is_forgotten("n05") for one in alive), 15
    )
    net.rounds_until(lambda: agree(alive), 10)
    assert len({site.directory.state.forgotten_digest for site in alive}) == 1
    net.run(5000)
    net.count()
    net.run(5000)
    assert not any(isinstance(message, Tombstones) for _, _, message in net.messages), "told once"


def test_tombstones_outlive_a_restart() -> None:
    net = Net()
    sites = system(net, 3)
    net.kill(sites[2])
    forget(sites[0], "n02")
    later = net.again(sites[0])
    assert later.view.is_forgotten("n02")
    assert later.told(Shunned) == [Shunned("n02", "n02")]
    assert [one.node for one in later.view.nodes()] == ["n01"]
    assert later.view.name_of("n02") == "n02"


def test_what_can_not_be_forgotten_is_refused_and_changes_nothing() -> None:
    net = Net()
    sites = system(net, 3)
    before = sites[0].directory.key()
    assert forget(sites[0], "n00") == 'no: "n00" is this node; say it at another one'
    assert forget(sites[0], "nobody") == 'no: no node "nobody" is known here; known are n01, n02'
    assert sites[0].directory.key() == before


def test_of_two_nodes_of_one_name_one_is_forgotten_by_its_key() -> None:
    made = serving()
    tell(made, PAGE)
    header = Header("lab-3", "b", "y", 1, 1, since_ms=20)
    tell(made, Page(header, 1), peer=Address("lab-3", "directory"))
    sender = Address("lab-1", "node")
    (refused,) = messages(made.handle(Received(sender, ForgetNode(1, "b"))), sender)
    assert refused == ForgetDone(1, False, '2 nodes are named "b"; forget one by its key: lab-2, lab-3')
    answers = messages(made.handle(Received(sender, ForgetNode(2, "lab-3"))), sender)
    assert isinstance(answers[-1], ForgetDone)
    assert answers[-1].ok
