"""A node without a driver: agent, claimant and pool side on one host, spoken to as its driver would.

Frames of clients go in, frames come out; time passes only when a test says so; a crash keeps what was saved.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias, cast

import msgspec

from holdall.leases.messages import PoolSpec, RunHook
from holdall.machine.codec import CODEC
from holdall.machine.contract import Address, Boot, CancelTimer, ClockRead, Message, Received, Record
from holdall.machine.host import Arrival, Host, Turn
from holdall.model import frames
from holdall.model.spec import parse_needs
from holdall.parties.agent import Agent
from holdall.parties.messages import (
    AGENT,
    CLAIMANT,
    HOOKS,
    MANAGER,
    NODE,
    PROCESSES,
    SESSION,
    AgentSettings,
    Asked,
    HookDone,
    ProcessGone,
    Reload,
    SessionClosed,
    SessionOpened,
)
from holdall.parties.neighbours import Neighbours
from holdall.parties.pool_side import PoolSide
from holdall.parties.views import PoolView
from holdall.protocols.chain.claimant import Claimant

HOST = "lab-1"
Post: TypeAlias = Callable[[Address, Address, Message], None]
"""(sender, receiver on another node, message)"""
FIRST_WALL_MS = 1_700_000_000_000


def pool(name: str, *units: str, **fields: object) -> PoolSpec:
    """A pool without labels, or with `labels={…}`."""
    labels = cast("dict[str, str]", fields.pop("labels", {}))
    text = ",".join(f"{key}={labels[key]}" for key in sorted(labels))
    pool_id = f"{name}{{{text}}}" if text else name
    spec = PoolSpec(pool=pool_id, name=name, labels=tuple(sorted(labels.items())), units=units)
    return msgspec.structs.replace(spec, **fields)


class Node:
    """The host and its driver's duties."""

    def __init__(
        self,
        *pools: PoolSpec,
        uid: int = 1000,
        node: str = HOST,
        neighbours: Neighbours | None = None,
        post: Post | None = None,
        **settings: object,
    ) -> None:
        self.id = node
        self.pools = pools
        self.neighbours = neighbours
        self.post = post
        self.settings = msgspec.structs.replace(AgentSettings(node, uid, open_claims_max=16), **settings)
        self.records: dict[str, Record] = {}
        self.timers: dict[str, int] = {}
        self.now_ms = 1000
        self.inboxes: dict[str, list[frames.FromNode]] = {}
        self.orders: list[RunHook] = []
        self.watched: list[Message] = []
        self.saves: dict[str, Record | None] = {}
        """Of the latest turn."""
        self.commits = 0
        self._lots = 0
        self.host = self._build()
        self._carry_out(self.host.start())
        self.turn([])

    def _build(self, *, epoch: int = 1, incarnation: int = 1) -> Host:
        side = PoolSide(self.id, self.pools, epoch=epoch)
        agent = Agent(self.settings, side, incarnation=incarnation, neighbours=self.neighbours)
        claimant = Claimant(self.id, Address(self.id, AGENT))
        return Host(self.id, {AGENT: agent, CLAIMANT: claimant, MANAGER: side})

    @property
    def agent(self) -> Agent:
        agent = self.host.parts[AGENT]
        assert isinstance(agent, Agent)
        return agent

    @property
    def side(self) -> PoolSide:
        side = self.host.parts[MANAGER]
        assert isinstance(side, PoolSide)
        return side

    @property
    def view(self) -> PoolView:
        return self.agent.state.pools

    # ------------------------------------------------------------ turns

    def turn(self, arrivals: Sequence[Arrival]) -> None:
        """The clock, then these events, all in one turn."""
        driver = Address(self.id, NODE)
        read = ClockRead(FIRST_WALL_MS + self.now_ms, self.now_ms)
        clocks = [Arrival(part, Received(driver, read)) for part in (AGENT, CLAIMANT, MANAGER)]
        self._carry_out(self.host.turn([*clocks, *arrivals]))

    def tell(self, part: str, sender: str, message: Message) -> None:
        """One message of the driver's side."""
        self.turn([Arrival(part, Received(Address(self.id, sender), message))])

    def pass_ms(self, milliseconds: int) -> None:
        """Time goes by; timers fire in their order, one a turn."""
        end = self.now_ms + milliseconds
        while self.timers:
            timer = min(self.timers, key=lambda name: (self.timers[name], name))
            if self.timers[timer] > end:
                break
            self.now_ms = max(self.now_ms, self.timers.pop(timer))
            self.turn([self.host.fire(timer)])
        self.now_ms = end

    def settle(self) -> None:
        """Let what is due now happen (the first word about a wait comes a turn later)."""
        self.pass_ms(0)

    def _carry_out(self, turn: Turn) -> None:
        self.saves = turn.saves
        self.commits += bool(turn.saves)
        for key, record in turn.saves.items():
            if record is None:
                self.records.pop(key, None)
            else:
                # What can't be written and read back is not saved.
                self.records[key] = CODEC.decode(CODEC.encode(record))
        for name, effect in turn.timers.items():
            if isinstance(effect, CancelTimer):
                self.timers.pop(name, None)
            else:
                self.timers[name] = self.now_ms + effect.after_ms
        for sender, to, message in turn.sends:
            if to.node != self.id:
                assert self.post is not None, f"nothing of one node's claims leaves it: {message} to {to}"
                self.post(sender, to, message)
            elif to.part.startswith(SESSION):
                assert len(frames.pack(message)) <= 64 * 1024 + 4  # type: ignore[arg-type]
                self.inboxes.setdefault(to.part.removeprefix(SESSION), []).append(message)  # type: ignore[arg-type]
            elif to.part == HOOKS:
                assert isinstance(message, RunHook)
                self.orders.append(message)
            else:
                assert to.part == PROCESSES
                self.watched.append(message)

    # ------------------------------------------------------------ faults

    def crash(self, *, kind: str = "same", epoch: int = 1, down_ms: int = 0, **boot: int) -> None:
        """The process dies and comes up again; only the records are kept."""
        self.now_ms += down_ms
        self.timers.clear()
        self.inboxes.clear()
        self.orders.clear()
        incarnation = self.agent.state.incarnation + 1
        kept = dict(self.records)
        if kind == "lost":
            kept = {}
            self.records = {}
        self.host = self._build(epoch=epoch, incarnation=incarnation)
        self._carry_out(
            self.host.recover(kept, Boot(kind=kind, epoch=epoch, incarnation=incarnation, **boot))
        )
        self.turn([])

    def hook(self, order: RunHook, *, ok: bool = True, text: str = "") -> None:
        """The runner of commands answers."""
        self.orders.remove(order)
        self.tell(MANAGER, HOOKS, HookDone(order.run, ok, text))

    def reload(self, *pools: PoolSpec) -> None:
        self.pools = pools
        self.tell(AGENT, NODE, Reload(pools))

    def process_gone(self, session: str) -> None:
        self.tell(AGENT, PROCESSES, ProcessGone(session))

    # ------------------------------------------------------------ what is true now

    def held(self) -> dict[str, str]:
        """`pool/unit` -> printed id, of all leases that the agent shows."""
        return {
            f"{unit.pool}/{unit.name}": view.lease for view in self.ask("who").leases for unit in view.units
        }

    def ask(self, what: str, arg: str = "", uid: int = 1000) -> frames.Listing:
        """A question of a client that comes for it only, about this node. All parts of a long answer are joined."""
        client = Client(self, f"asker-{self.now_ms}-{self._lots}", uid=uid)
        answers = client.say(frames.Ask(client.number(), what, arg, local=True))  # type: ignore[arg-type]
        client.close(gone=True)
        whole = answers[0]
        assert isinstance(whole, frames.Listing), whole
        for part in answers[1:]:
            assert isinstance(part, frames.Listing)
            whole = frames.Listing(
                n=whole.n,
                pools=whole.pools + part.pools,
                leases=whole.leases + part.leases,
                waits=whole.waits + part.waits,
                log=whole.log + part.log,
                nodes=whole.nodes + part.nodes,
            )
        return whole

    def lot(self) -> str:
        self._lots += 1
        return f"lot-{self._lots:028}"

    def check_counts(self) -> None:
        """Each unit has at most one holder; the book's sums are those of its units; manager and book agree."""
        book = self.side.book
        for name, units in book.service.pools.items():
            held = [unit for unit in units.units.values() if unit.claim is not None]
            free = [unit for unit in units.in_order() if unit.state(draining=book.service.draining) == "free"]
            assert units.held == len(held)
            assert units.free_count() == len(free)
            assert units.capacity == len(held) + len(free)
            assert self.side.manager.counts.use(name) == len(held)
        for party, record in book.leases.items():
            for grant in record.units:
                assert book.service.pools[grant.pool].units[grant.unit].claim == party


class Client:
    """One connection of a client, as the driver sees it."""

    def __init__(
        self,
        node: Node,
        name: str,
        *,
        uid: int = 1000,
        pid: int = 4000,
        agent: str = "",
        session: str = "",
        secret: str = "",
    ) -> None:
        """`pid` 0: of another host."""
        self.node = node
        self.name = name
        self.uid = uid
        self.user = f"user{uid}"
        self.session = name
        self.secret = ""
        self._last_number = 0
        node.turn([self._arrival(SessionOpened(uid, self.user, pid=pid, started=77 if pid else 0))])
        hello = frames.Hello(
            v=1,
            agent=agent or f"{name}@{node.settings.name or node.id}",
            pid=pid,
            session=session,
            secret=secret,
        )
        answer, *self.told_again = self.say(hello)
        assert isinstance(answer, frames.Welcome), answer
        self.welcome = answer
        self.session, self.secret = answer.session, answer.secret

    def _arrival(self, message: Message) -> Arrival:
        return Arrival(AGENT, Received(Address(self.node.id, SESSION + self.name), message))

    def asks(self, frame: frames.ToNode) -> Arrival:
        """The arrival of a frame, to be put into a turn with others."""
        return self._arrival(Asked(frame, self.uid, self.user, self.node.lot()))

    def number(self) -> int:
        self._last_number += 1
        return self._last_number

    def say(self, frame: frames.ToNode) -> list[frames.FromNode]:
        """One frame in one turn; what the node answers in that turn."""
        self.inbox()
        self.node.turn([self.asks(frame)])
        return self.inbox()

    def inbox(self) -> list[frames.FromNode]:
        """What has come since the last look."""
        return self.node.inboxes.pop(self.name, [])

    def claim(self, *specs: str, **fields: object) -> frames.Claim:
        """A Claim frame; alternatives are written `a or b`."""
        needs = parse_needs([spec.split(" or ") if " or " in spec else spec for spec in specs])
        return msgspec.structs.replace(frames.Claim(n=self.number(), needs=needs), **fields)

    def ask_for(self, *specs: str, **fields: object) -> list[frames.FromNode]:
        """Claim, and let the first word about a wait come."""
        answers = self.say(self.claim(*specs, **fields))
        self.node.settle()
        return answers + self.inbox()

    def gets(self, *specs: str, **fields: object) -> frames.Granted:
        """Claim, granted at once."""
        (answer,) = self.ask_for(*specs, **fields)
        assert isinstance(answer, frames.Granted), answer
        return answer

    def waits(self, *specs: str, **fields: object) -> frames.Queued:
        """Claim, queued."""
        (answer,) = self.ask_for(*specs, **fields)
        assert isinstance(answer, frames.Queued), answer
        return answer

    def refused(self, *specs: str, **fields: object) -> frames.Denied:
        """Claim, denied at once."""
        (answer,) = self.ask_for(*specs, **fields)
        assert isinstance(answer, frames.Denied), answer
        return answer

    def releases(self, lease: frames.Granted, **fields: object) -> frames.FromNode:
        frame = frames.Release(self.number(), lease.key)
        answers = self.say(msgspec.structs.replace(frame, **fields))
        return answers[0]

    def beats(self) -> dict[str, int]:
        (answer,) = [one for one in self.say(frames.Beat(self.number())) if isinstance(one, frames.BeatOk)]
        return dict(answer.valid_for_ms)

    def close(self, *, gone: bool) -> None:
        self.node.turn([self._arrival(SessionClosed(process_gone=gone))])

    def returns(self, name: str) -> "Client":
        """The same session over another connection."""
        again = Client(self.node, name, uid=self.uid, session=self.session, secret=self.secret)
        again._last_number = self._last_number
        return again


def names(granted: frames.Granted) -> list[str]:
    """`pool/unit` of a lease, in the order of the answer."""
    return [f"{unit.pool}/{unit.name}" for unit in granted.lease.units]
