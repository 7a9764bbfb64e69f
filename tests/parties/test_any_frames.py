"""Whatever a client says, the node goes on: every request has an answer, and no unit has two holders."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from parties.party_node import Client, Node, pool

from holdall.model import frames

TEXT = st.one_of(
    st.sampled_from(
        [
            "",
            "gpu",
            "psu",
            "gpu/0",
            "psu/p1",
            "#1",
            "#2",
            "#x",
            "gpu,model=a",
            "/",
            "\x1fgpu\x1f1000",
            "é" * 40,
        ]
    ),
    st.text(max_size=12),
)
MILLISECONDS = st.one_of(st.none(), st.sampled_from([0, 1, 999, 1000, 30_000, 300_000, 300_001, 2**53]))
SELECTORS = st.builds(
    frames.Selector,
    pools=st.lists(st.one_of(st.sampled_from(["gpu", "psu", "nope"]), TEXT), max_size=3).map(tuple),
    labels=st.lists(st.tuples(st.sampled_from(["model", "k"]), TEXT), max_size=2).map(tuple),
    node=st.sampled_from(["", "lab-1", "lab-2", "?"]),
    count=st.sampled_from([0, 1, 1, 1, 2, 3, 1_000_000]),
)
NEEDS = st.lists(st.builds(frames.Need, options=st.lists(SELECTORS, max_size=3).map(tuple)), max_size=3).map(
    tuple
)


def requests(keys: list[str]) -> st.SearchStrategy[frames.ToNode]:
    """Any frame but Hello; keys are mostly ones that exist."""
    key = st.one_of(st.sampled_from(keys), TEXT) if keys else TEXT
    number = st.just(0)
    some_ms = MILLISECONDS.map(lambda value: 30_000 if value is None else value)
    return st.one_of(
        st.builds(
            frames.Claim,
            n=number,
            needs=NEEDS,
            wait_ms=MILLISECONDS,
            asked_wait_ms=MILLISECONDS,
            now=st.booleans(),
            ttl_ms=some_ms,
            for_ms=MILLISECONDS,
            reason=TEXT,
            site=TEXT,
            under=st.one_of(st.just(""), key),
            independent=st.booleans(),
            allow_future=st.booleans(),
            detached=st.booleans(),
            guarded=st.booleans(),
        ),
        st.builds(frames.Claim, n=number, needs=st.just((frames.Need((frames.Selector(("gpu",)),)),))),
        st.builds(frames.Beat, n=number),
        st.builds(frames.Attach, n=number, key=key),
        st.builds(frames.Release, n=number, key=key, wait=st.booleans()),
        st.builds(frames.Cancel, n=number, claim=key),
        st.builds(frames.Extend, n=number, key=key, for_ms=some_ms),
        st.builds(frames.Drop, n=number, key=key, units=st.lists(TEXT, max_size=2).map(tuple)),
        st.builds(frames.Exchange, n=number, key=key, add=NEEDS, drop=st.lists(TEXT, max_size=2).map(tuple)),
        st.builds(
            frames.Ask,
            n=number,
            what=st.sampled_from(["pools", "who", "queue", "why", "log", "show", "node", "usage"]),
            arg=key,
            since_ms=MILLISECONDS,
        ),
        st.builds(frames.Watch, n=number),
        st.builds(frames.Kick, n=number, lease=key, reason=TEXT, unsafe=st.booleans()),
        st.builds(frames.Drain, n=number, on=st.booleans()),
        st.builds(frames.Clear, n=number, unit=TEXT),
    )


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_the_agent_answers_whatever_a_client_says(data: st.DataObject) -> None:
    node = Node(
        pool("gpu", "0", "1", labels={"model": "a"}),
        pool("gpu", "2", labels={"model": "b"}, max_for_ms=60_000),
        pool("psu", "p1", cooldown_ms=500),
    )
    clients = [Client(node, "a"), Client(node, "b", uid=2000)]
    keys: list[str] = []
    for _ in range(data.draw(st.integers(1, 12))):
        client = data.draw(st.sampled_from(clients))
        frame = data.draw(requests(keys))
        n = client.number()
        answers = client.say(msgspec.structs.replace(frame, n=n))
        node.pass_ms(data.draw(st.sampled_from([0, 0, 1, 700, 31_000])))
        answers += client.inbox()
        for one in answers:
            if isinstance(one, frames.Granted):
                keys += [one.key, one.lease.lease]
            elif isinstance(one, frames.Queued):
                keys += [one.claim, f"#{one.n}"]
        answered = [
            one for one in answers if not isinstance(one, (frames.Lost, frames.Welcome)) and one.n == n
        ]
        waits_for_holder = isinstance(frame, (frames.Kick, frames.Watch))
        assert answered or waits_for_holder, "every request is answered"
        node.check_counts()
    before = [(view.lease, view.units) for view in node.ask("who").leases]
    node.crash()
    assert [(view.lease, view.units) for view in node.ask("who").leases] == before
    node.check_counts()
