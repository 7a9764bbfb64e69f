"""Any sequence of well-formed frames, connections and timers leaves the machines of a node whole.

An exception in a machine ends a node, so a client that could cause one could end it at will. Here no frame may
raise anything, not even what a driver refuses and counts, and every record and answer can be written.
"""

from pathlib import Path

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from holdall.machine.codec import CODEC
from holdall.machine.contract import Address, Boot, ClockRead, Received, Record, SetTimer
from holdall.machine.host import Arrival, Host, Turn
from holdall.model import frames
from holdall.model.names import FRAME_BYTES_MAX
from holdall.node.assembly import build_host
from holdall.node.process import Process
from holdall.node.settings import parse_settings
from holdall.parties.messages import (
    AGENT,
    HOOKS,
    MANAGER,
    Asked,
    HookDone,
    RunHook,
    SessionClosed,
    SessionOpened,
)

SETTINGS = parse_settings(
    """
[node]
name = "lab-1"
[[pool]]
name = "board"
units = ["b-1", "b-2", "b-3"]
labels = { arch = "arm64" }
cooldown = "5s"
[[pool]]
name = "psu"
count = 2
on_release = "off {unit}"
on_grant = "on {unit}"
max_for = "1h"
""",
    state=Path("/tmp/hd-hostile"),
)


def _one_need(pool: str, count: int) -> tuple[frames.Need, ...]:
    return (frames.Need((frames.Selector((pool,), count=count),)),)


texts = st.sampled_from(
    ["", "x", "board", "psu", "board/b-1", "psu/0", "#1", "KEY", "ID", "\u2028é", "a" * 512]
)
numbers = st.integers(0, 9)
durations = st.one_of(st.sampled_from([0, 1, 999, 1000, 30_000, 300_000, 2**53]), st.integers(0, 2**53))
maybe = st.none() | durations
selectors = st.builds(
    frames.Selector,
    pools=st.lists(st.sampled_from(["board", "psu", "x", "", "A b"]), min_size=1, max_size=3).map(tuple),
    labels=st.sampled_from([(), (("arch", "arm64"),), (("arch", "x"), ("", ""))]),
    node=st.sampled_from(["", "lab-1", "lab-2", "?"]),
    count=st.sampled_from([0, 1, 2, 3, 5, 1_000_000]),
)
needs = st.lists(st.builds(frames.Need, st.lists(selectors, max_size=5).map(tuple)), max_size=4).map(tuple)
units = st.lists(texts, max_size=3).map(tuple)
flags = st.booleans()
requests: st.SearchStrategy[frames.ToNode] = st.one_of(
    st.builds(
        frames.Claim,
        n=numbers,
        needs=needs,
        wait_ms=maybe,
        now=flags,
        ttl_ms=durations,
        for_ms=maybe,
        reason=texts,
        site=texts,
        under=texts,
        independent=flags,
        allow_future=flags,
        detached=flags,
        guarded=flags,
    ),
    st.builds(
        frames.Claim,
        n=numbers,
        needs=st.builds(
            _one_need,
            st.sampled_from(["board", "psu"]),
            st.integers(0, 3),
        ),
        now=flags,
        guarded=flags,
    ),
    st.builds(frames.Hello, v=st.sampled_from([0, 1, 2]), session=texts, secret=texts),
    st.builds(frames.Beat, n=numbers),
    st.builds(frames.Attach, n=numbers, key=texts),
    st.builds(
        frames.Release,
        n=numbers,
        key=texts,
        wait=flags,
        exit=st.none()
        | st.builds(frames.ExitRecord, code=st.none() | st.integers(-(2**63), 2**64 - 1), reason=texts),
    ),
    st.builds(frames.Cancel, n=numbers, claim=texts),
    st.builds(frames.Extend, n=numbers, key=texts, for_ms=durations),
    st.builds(frames.Drop, n=numbers, key=texts, units=units),
    st.builds(frames.Exchange, n=numbers, key=texts, add=needs, drop=units),
    st.builds(
        frames.Ask,
        n=numbers,
        what=st.sampled_from(["pools", "who", "queue", "why", "log", "show", "node", "usage"]),
        arg=texts,
        since_ms=maybe,
    ),
    st.builds(frames.Watch, n=numbers),
    st.builds(frames.Kick, n=numbers, lease=texts, reason=texts, unsafe=flags),
    st.builds(frames.Drain, n=numbers, on=flags),
    st.builds(frames.Clear, n=numbers, unit=texts),
    st.builds(frames.Forget, n=numbers, node=st.sampled_from(["", "lab-1", "lab-2"]), heard=flags),
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), numbers, requests),
        st.tuples(st.just("close"), numbers, flags),
        st.tuples(st.just("timer"), numbers, flags),
        st.tuples(st.just("hook"), numbers, flags),
        st.tuples(st.just("restart"), numbers, flags),
    ),
    min_size=1,
    max_size=25,
)


class Driver:
    """Plays the node's driver over a host, and knows the keys and ids that its clients were told."""

    def __init__(self) -> None:
        self.host: Host = build_host(SETTINGS, epoch=1, incarnation=1, process=Process(pid=1, uid=1000))
        self.records: dict[str, Record] = {}
        self.incarnation = 1
        self.timers: dict[str, SetTimer] = {}
        self.hooks: list[tuple[Address, RunHook]] = []
        self.keys: list[str] = []
        self.ids: list[str] = []
        self.connections: list[Address] = []
        self.lots = 0
        self.connected = 0
        self.act(self.host.start())
        for part in (AGENT, MANAGER):
            self.give(part, Address("lab-1", "node"), ClockRead(1_800_000_000_000, 1_000_000))
        for _ in range(3):
            self.connect()

    def restart(self, kind: str) -> None:
        """The process dies; all that is left is what was saved. A journal may lack everything after a reboot."""
        self.incarnation += 1
        epoch = 1 if kind == "same" else self.incarnation
        if kind == "lost":
            self.records.clear()
        self.host = build_host(
            SETTINGS, epoch=epoch, incarnation=self.incarnation, process=Process(pid=1, uid=1000)
        )
        self.timers.clear()
        self.hooks.clear()
        quarantine_ms = 0 if kind == "same" else 306_000
        self.act(
            self.host.recover(dict(self.records), Boot(kind, epoch, self.incarnation, quarantine_ms, 5000))
        )
        for part in (AGENT, MANAGER):
            self.give(part, Address("lab-1", "node"), ClockRead(1_800_000_100_000, 1_100_000))
        self.connections.clear()
        for _ in range(3):
            self.connect()

    def connect(self) -> None:
        self.connected += 1
        address = Address("lab-1", f"session/{self.connected:032x}")
        self.connections.append(address)
        self.give(AGENT, address, SessionOpened(uid=1000 + self.connected % 2, user="u", pid=5))
        self.ask(address, frames.Hello(v=frames.VERSION))

    def ask(self, address: Address, frame: frames.ToNode) -> None:
        self.lots += 1
        known = frames.read_request(frames.pack(frame)[frames.LENGTH_BYTES :])
        uid = 1000 + int(address.part[-1], 16) % 2
        self.give(AGENT, address, Asked(known, uid, "u", f"{self.lots:032x}"))

    def give(self, part: str, sender: Address, message: object) -> None:
        self.act(self.host.turn((Arrival(part, Received(sender, message)),)))  # type: ignore[arg-type]

    def act(self, turn: Turn) -> None:
        for key, record in turn.saves.items():
            if record is None:
                self.records.pop(key, None)
            else:
                self.records[key] = CODEC.decode(CODEC.encode(record))
                assert self.records[key] == record
        for name, order in turn.timers.items():
            self.timers.pop(name, None)
            if isinstance(order, SetTimer):
                assert order.after_ms >= 0
                self.timers[name] = order
        for sender, to, message in turn.sends:
            if to == Address("lab-1", HOOKS):
                assert isinstance(message, RunHook)
                self.hooks.append((sender, message))
                continue
            assert to.part.startswith(("session/", "processes", "node", "bus")), to
            data = frames.pack(message)  # type: ignore[arg-type]
            assert len(data) <= FRAME_BYTES_MAX + frames.LENGTH_BYTES
            if isinstance(message, frames.Granted):
                self.keys.append(message.key)
                self.ids.append(message.lease.lease)
            elif isinstance(message, frames.Queued):
                self.ids.append(message.claim)

    def step(self, kind: str, number: int, what: object) -> None:
        if kind == "hook" and self.hooks:
            sender, order = self.hooks.pop(number % len(self.hooks))
            self.give(sender.part, Address("lab-1", HOOKS), HookDone(order.run, ok=bool(what), text="t"))
        elif kind == "restart":
            self.restart(("same", "reboot", "lost")[number % 3])
        elif kind == "timer" and self.timers:
            name = sorted(self.timers)[number % len(self.timers)]
            del self.timers[name]
            self.act(self.host.turn((self.host.fire(name),)))
        elif kind == "close":
            address = self.connections.pop(number % len(self.connections))
            self.give(AGENT, address, SessionClosed(process_gone=bool(what)))
            self.connect()
        elif kind == "ask":
            self.ask(self.connections[number % len(self.connections)], self.with_names(what))

    def with_names(self, frame: object) -> frames.ToNode:
        """The frame with real keys and ids where it says KEY and ID."""
        changes = {}
        for field in ("key", "under", "lease", "claim", "arg"):
            value = getattr(frame, field, None)
            if value == "KEY" and self.keys:
                changes[field] = self.keys[-1]
            elif value == "ID" and self.ids:
                changes[field] = self.ids[-1]
        return msgspec.structs.replace(frame, **changes)  # type: ignore[type-var, return-value]


@settings(max_examples=400)
@given(steps)
def test_no_client_can_make_a_machine_fail(script: list[tuple[str, int, object]]) -> None:
    driver = Driver()
    for kind, number, what in script:
        driver.step(kind, number, what)
