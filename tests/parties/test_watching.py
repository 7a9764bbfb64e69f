"""Histories of all nodes as they grow: nothing twice, nothing lost over a break, and nothing kept for who is gone."""

from parties.joined_nodes import Net
from parties.party_node import Client, Node, pool

from holdall.model import frames
from holdall.parties.listings.questions import PeerHappened, PeerWatch
from holdall.parties.listings.watching import FOLLOW_MS, FOLLOWER_MS, MISSED_MAX


class Watched:
    """lab-2 and lab-3 have a gpu each; somebody watches at lab-1."""

    def __init__(self, **fields: object) -> None:
        self.net = Net()
        self.one = self.net.add("lab-1", pool("psu", "p1"))
        self.two = self.net.add("lab-2", pool("gpu", "0"))
        self.three = self.net.add("lab-3", pool("gpu", "0"))
        self.watcher = Client(self.one, "watcher")
        assert self.watcher.say(frames.Watch(self.watcher.number(), **fields)) == []  # type: ignore[arg-type]
        self.net.deliver()

    def rows(self) -> list[frames.LogRow]:
        """What the watcher was told since the last look."""
        self.net.deliver()
        told = self.watcher.inbox()
        assert all(isinstance(one, frames.Happened) and one.n == 1 for one in told)
        return [one.row for one in told if isinstance(one, frames.Happened)]

    def told(self) -> list[tuple[str, str]]:
        return [(row.node, row.kind) for row in self.rows()]


def use(node: Node, name: str, times: int = 1) -> None:
    """Each time two rows: granted, released."""
    client = Client(node, name)
    for _ in range(times):
        client.releases(client.gets("psu:1" if "lab-1" in node.settings.name else "gpu:1"))


def test_rows_of_all_nodes_are_told_once_each_with_their_node() -> None:
    lab = Watched()
    use(lab.two, "b")
    assert lab.told() == [("lab-2", "granted"), ("lab-2", "released")]
    use(lab.one, "a")
    use(lab.three, "c")
    assert lab.told() == [
        ("lab-1", "granted"),
        ("lab-1", "released"),
        ("lab-3", "granted"),
        ("lab-3", "released"),
    ]
    lab.net.pass_ms(3 * FOLLOW_MS, step=500)
    assert lab.told() == [], "renewing a subscription repeats nothing"


def test_what_was_before_the_watch_is_not_told() -> None:
    net = Net()
    one, two = net.add("lab-1"), net.add("lab-2", pool("gpu", "0"))
    use(two, "b")
    watcher = Client(one, "w")
    watcher.say(frames.Watch(watcher.number()))
    net.pass_ms(FOLLOW_MS, step=500)
    assert watcher.inbox() == []


def test_one_node_is_subscribed_to_once_for_all_who_watch() -> None:
    lab = Watched()
    second = Client(lab.one, "second")
    second.say(frames.Watch(second.number()))
    lab.net.deliver()
    assert sorted(to.node for _, to, message in lab.net.sent if isinstance(message, PeerWatch)) == sorted(
        [lab.two.id, lab.three.id]
    )
    use(lab.two, "b")
    lab.net.deliver()
    assert lab.told() == [("lab-2", "granted"), ("lab-2", "released")]
    assert len(second.inbox()) == 2
    assert sum(1 for _, _, one in lab.net.sent if isinstance(one, PeerHappened) and one.rows) == 2


def test_a_watch_of_one_node_and_a_local_one() -> None:
    lab = Watched(node="lab-2")
    assert [to.node for _, to, message in lab.net.sent if isinstance(message, PeerWatch)] == [lab.two.id]
    local = Client(lab.one, "local")
    local.say(frames.Watch(local.number(), local=True))
    for node in (lab.one, lab.two, lab.three):
        use(node, "x")
    assert lab.told() == [("lab-2", "granted"), ("lab-2", "released")]
    assert {one.row.node for one in local.inbox() if isinstance(one, frames.Happened)} == {"lab-1"}
    denied = local.say(frames.Watch(local.number(), node="lab-9"))
    assert denied == [
        frames.Denied(2, "bad-spec", "no node is named 'lab-9'. Known: lab-1, lab-2, lab-3"),
    ]


def test_a_dead_watchers_subscription_ends() -> None:
    lab = Watched()
    assert lab.two.agent.state.followers == {lab.one.id: 1}
    lab.watcher.close(gone=True)
    lab.net.pass_ms(FOLLOW_MS, step=500)
    assert lab.two.agent.state.followers == {}
    assert lab.one.agent.state.followed == {}
    assert not [timer for timer in (*lab.one.timers, *lab.two.timers) if "follow" in timer]


def test_a_dead_node_s_subscription_ends_without_a_word_from_it() -> None:
    lab = Watched()
    lab.net.nodes.pop(lab.one.id)
    lab.net.pass_ms(FOLLOWER_MS, step=500)
    assert lab.two.agent.state.followers == {}
    lab.net.sent.clear()
    use(lab.two, "b")
    assert not [one for _, _, one in lab.net.sent if isinstance(one, PeerHappened)]


def test_what_a_break_swallowed_comes_with_the_next_renewal_and_nothing_twice() -> None:
    lab = Watched()
    use(lab.two, "b")
    assert len(lab.rows()) == 2
    use(lab.two, "c")
    lab.net.queue.clear()  # the link lost these
    lab.net.pass_ms(FOLLOW_MS, step=500)
    assert [row.seq for row in lab.rows()] == [3, 4]
    use(lab.two, "d")
    lab.net.queue.popleft()  # the first of two
    assert [row.seq for row in lab.rows()] == [5, 6], "the gap is asked for at once"


def test_so_many_missed_rows_and_how_many_more_there_were() -> None:
    lab = Watched()
    use(lab.two, "b", times=1)
    assert len(lab.rows()) == 2
    use(lab.two, "c", times=MISSED_MAX)
    lab.net.queue.clear()
    lab.net.pass_ms(FOLLOW_MS, step=500)
    first, *rows = lab.rows()
    assert (first.node, first.kind, first.seq) == ("lab-2", "node-skipped", 0)
    assert first.text == f"{MISSED_MAX} earlier rows are not told. See: holdall log"
    assert [row.seq for row in rows] == list(range(MISSED_MAX + 3, 2 * MISSED_MAX + 3))


def test_a_node_that_goes_silent_and_comes_back_is_told_in_the_stream_with_what_it_did_meanwhile() -> None:
    lab = Watched()
    lab.net.deaf.add(lab.two.id)
    lab.net.state(lab.two, "silent", 12_000)
    (row,) = lab.rows()
    assert (row.node, row.kind, row.text) == ("lab-2", "node-silent", "not heard for 12 s")
    lab.net.state(lab.two, "silent", 15_000)
    assert lab.rows() == [], "told once"
    lab.net.pass_ms(2 * FOLLOWER_MS, step=500)
    use(lab.two, "b")
    lab.net.held.clear()
    assert lab.rows() == [], "its subscription has run out meanwhile"
    lab.net.hear_again(lab.two.id)
    lab.net.state(lab.two, "serving")
    assert lab.told() == [("lab-2", "node-serving"), ("lab-2", "granted"), ("lab-2", "released")]


def test_a_node_that_joins_later_is_watched_from_then_on() -> None:
    lab = Watched()
    four = lab.net.add("lab-4", pool("gpu", "0"))
    lab.net.state(four, "serving")
    assert lab.told() == [("lab-4", "node-serving")]
    use(four, "d")
    assert lab.told() == [("lab-4", "granted"), ("lab-4", "released")]
    lab.net.state(four, "forgotten")
    assert lab.told() == [("lab-4", "node-forgotten")]


def test_rows_of_a_node_that_has_lost_its_history_count_from_the_start() -> None:
    lab = Watched()
    use(lab.two, "b", times=3)
    assert len(lab.rows()) == 6
    lab.two.crash(kind="lost", epoch=2)
    lab.net.pass_ms(FOLLOW_MS, step=500)
    lab.rows()
    before = lab.two.agent.state.log[-1].seq if lab.two.agent.state.log else 0
    assert before < 6
    lab.two.agent.state.note("cleared", "gpu/0: looked at")
    lab.two._carry_out(lab.two.host._run((), {"agent": lab.two.agent.state.out}))
    assert lab.told() == [("lab-2", "cleared")]
