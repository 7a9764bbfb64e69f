"""All clients of a run: who sits where, what reaches them, who stands still, who is killed; judged as they believe."""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from holdall.machine.contract import Address, Message, Received
from holdall.machine.host import Arrival
from holdall.model import frames
from holdall.parties.messages import AGENT, PROCESSES, Asked, ProcessGone, SessionClosed, SessionOpened
from holdall.simulator.sites import State
from holdall.simulator.whole.around import Alarm, Asking, Tenure
from holdall.simulator.whole.clients import WholeClient
from holdall.simulator.whole.computers import SOCKET_MS, Computer
from holdall.simulator.whole.figures import Tally
from holdall.simulator.whole.judge import WholeJudge
from holdall.simulator.whole.setup import UID, WholeSetup
from holdall.simulator.whole.story import Story
from holdall.simulator.whole.wishes import Series, Wishes

FIRST_MS = 3_000
"""Clients begin when the nodes have had time to hear of each other."""
NEXT_LIFE_MS = 500


class Clockwork(Protocol):
    """What the clients ask of the run. Times in ms of true time."""

    now: float

    def later(self, after: float, call: Callable[..., None], *what: object) -> None:
        """Call it then."""
        ...

    def arrive(self, computer: Computer, arrival: Arrival) -> None:
        """Something has reached a node."""
        ...


class WholeSeats:
    """Implements `clients.Around`."""

    def __init__(
        self,
        setup: WholeSetup,
        work: Clockwork,
        computers: list[Computer],
        *,
        judge: WholeJudge,
        story: Story,
        tally: Tally,
    ) -> None:
        self._setup = setup
        self._work = work
        self._computers = computers
        self._judge = judge
        self._story = story
        self._tally = tally
        self._chance = random.Random(f"holdall whole seats {setup.seed}")
        self._resume_at: dict[int, float] = {}
        self.clients: list[WholeClient] = []
        """By the number of the seat: the process that sits there now."""

    @property
    def now(self) -> float:
        """True time."""
        return self._work.now

    def begin(self, scripts: Mapping[int, Sequence[Series]]) -> None:
        """The first process of each seat, those with scripts of their own last."""
        wants = self._setup.wants
        for node in range(self._setup.nodes):
            for seat in range(wants.clients):
                wishes = Wishes(self._setup, node, seat)
                self.clients.append(self._client(wishes, node, seat, len(self.clients), 1))
        for client in self.clients:
            self._work.later(FIRST_MS * (1 + self._chance.random()), client.begin)
        for node, of_node in sorted(scripts.items()):
            for place, script in enumerate(of_node):
                client = self._client(script, node, wants.clients + place, len(self.clients), 1)
                self.clients.append(client)
                self._work.later(FIRST_MS, client.begin)

    def stop(self) -> None:
        """No client begins a claim any more."""
        for client in self.clients:
            client.stopped = True

    def finish(self) -> bool:
        """Processes that want nothing any more end. True: no other is left."""
        for client in self.clients:
            if client.alive and client.is_idle:
                client.alive = False
                self._gone(client)
        return not any(client.alive for client in self.clients)

    def waiting(self) -> list[str]:
        """Names of clients that have not come to an end."""
        return [
            f"{client.name} {'waits' if client.asking else 'holds' if client.tenure else 'still speaks'}"
            for client in self.clients
            if client.alive and not client.is_idle
        ]

    def _client(self, wishes: Series, node: int, seat: int, number: int, life: int) -> WholeClient:
        # a socket joins processes of one computer, and those read one clock
        rate = self._computers[node].rate
        return WholeClient(self, wishes, node=node, seat=seat, number=number, life=life, rate=rate)

    # ------------------------------------------------------------ faults

    def nap(self, place: float, until: float) -> None:
        """A client stands still."""
        client = self.clients[int(place * len(self.clients))]
        if client.alive and self.now >= self._resume_at.get(client.number, 0.0):
            self._resume_at[client.number] = until
            self._tally.faults["nap"] += 1
            self._story.fault("nap", self.now, until, client.name)

    def kill(self, place: float) -> None:
        """A client is killed."""
        client = self.clients[int(place * len(self.clients))]
        if client.alive and client.connection:
            self._tally.faults["kill"] += 1
            self._end(client, self.now + NEXT_LIFE_MS)

    def kill_all(self, node: int, next_life: float) -> None:
        """A computer goes down with its processes."""
        for client in self.clients:
            if client.node == node and client.alive:
                self._end(client, next_life)

    def _end(self, client: WholeClient, next_life: float) -> None:
        self._tally.counts["killed"] += 1
        self._story.crash(client.name, self.now)
        if client.tenure is not None:
            self._judge.stopped(client.number, client.tenure.units)
        client.alive = False
        self._resume_at.pop(client.number, None)
        self._gone(client)
        heir = self._client(client.wishes, client.node, client.seat, client.number, client.life + 1)
        heir.stopped = client.stopped
        self.clients[client.number] = heir
        self._work.later(next_life - self.now, heir.begin)

    def _gone(self, client: WholeClient) -> None:
        """The process has ended: its computer's node is told in the way in which it watches it."""
        computer = self._computers[client.node]
        connection = client.connection
        if computer.connections.pop(connection, None) is not None:
            self._to_node(computer, connection, SessionClosed(process_gone=True))
        for broken in [one for one, pid in computer.broken.items() if pid == client.pid]:
            del computer.broken[broken]
            self._to_node(computer, broken, SessionClosed(process_gone=True))
        for session in [one for one, pid in computer.watched.items() if pid == client.pid]:
            del computer.watched[session]
            self.process_gone(computer, session)

    def process_gone(self, computer: Computer, session: str) -> None:
        """What `processes` tells the agent."""
        sender = Address(computer.site.host.node, PROCESSES)
        self._work.arrive(computer, Arrival(AGENT, Received(sender, ProcessGone(session))))

    def lives(self, pid: int) -> bool:
        """Whether the process exists."""
        return any(client.alive and client.pid == pid for client in self.clients)

    # ------------------------------------------------------------ frames and alarms

    def hear(self, client: WholeClient, connection: str, frame: frames.FromNode | None) -> None:
        """A frame has come out of a socket; None: it has ended."""
        if not client.alive or client.connection != connection:
            return
        resume_at = self._resume_at.get(client.number, 0.0)
        if self.now < resume_at:
            self._work.later(resume_at - self.now, self.hear, client, connection, frame)
        elif frame is None:
            client.broken()
        else:
            client.hear(frame)

    def _ring(self, client: WholeClient, what: Alarm, token: int) -> None:
        if not client.alive:
            return
        resume_at = self._resume_at.get(client.number, 0.0)
        if self.now < resume_at and what is not Alarm.DEADLINE:
            self._work.later(resume_at - self.now, self._ring, client, what, token)
        else:
            client.rings(what, token)

    def alarm(self, client: WholeClient, what: Alarm, after: float, token: int) -> None:
        """As `Around.alarm`."""
        # a hair later than the clock shows it, so that it is over by the client's reading, too
        self._work.later(after / client.rate + 1e-6, self._ring, client, what, token)

    def connect(self, client: WholeClient) -> bool:
        """As `Around.connect`: a node that stands still has a socket all the same."""
        computer = self._computers[client.node]
        if computer.site.state is State.DOWN or not computer.is_open:
            return False
        client.connection = f"{self._chance.getrandbits(128):032x}"
        computer.connections[client.connection] = client
        self._to_node(
            computer, client.connection, SessionOpened(UID, f"user{UID}", pid=client.pid, started=client.pid)
        )
        return True

    def say(self, client: WholeClient, frame: frames.ToNode) -> None:
        """As `Around.say`."""
        lot = f"{self._chance.getrandbits(128):032x}"
        asked = Asked(frame, UID, f"user{UID}", lot)
        self._to_node(self._computers[client.node], client.connection, asked)

    def hang_up(self, client: WholeClient) -> None:
        """As `Around.hang_up`."""
        computer = self._computers[client.node]
        if computer.connections.pop(client.connection, None) is not None:
            computer.broken[client.connection] = client.pid
            self._to_node(computer, client.connection, SessionClosed(process_gone=False))

    def _to_node(self, computer: Computer, connection: str, message: Message) -> None:
        self._work.later(SOCKET_MS, self._reaches, computer, computer.site.incarnation, connection, message)

    def _reaches(self, computer: Computer, incarnation: int, connection: str, message: Message) -> None:
        if computer.site.incarnation == incarnation:
            self._work.arrive(computer, computer.from_connection(connection, message))

    # ------------------------------------------------------------ what they believe

    def asked(self, client: WholeClient, asking: Asking) -> None:
        """As `Around.asked`."""
        self._tally.counts["claims"] += 1
        self._story.claim(asking.name, client.name, asking.frame.needs, self.now)

    def queued(self, client: WholeClient, asking: Asking, queued: frames.Queued) -> None:
        """As `Around.queued`."""
        del client
        # 0: in no line yet, so nothing is promised
        why = queued.why
        self._story.queued(asking.name, (why.passes_bound or None) if why.bounded else None, self.now)

    def granted(self, client: WholeClient, asking: Asking, tenure: Tenure) -> None:
        """As `Around.granted`."""
        counts = self._tally.counts
        counts["grants"] += 1
        counts["contended"] += asking.queued
        counts["wide"] += len({unit.node for unit in tenure.units}) > 1
        self._tally.waits.append(self.now - asking.asked)
        if client.clock < tenure.end:
            self._judge.granted(client.number, asking.frame.needs, tenure.units)
        self._story.grant(
            asking.name,
            tenure.lease,
            tenure.units,
            at=self.now,
            call=client.true(tenure.sent),
            until=client.true(tenure.end),
            ttl_ms=tenure.ttl_ms / client.rate,
        )

    def renewed(self, client: WholeClient, tenure: Tenure) -> None:
        """As `Around.renewed`."""
        self._tally.counts["renewals"] += 1
        self._story.renew(
            tenure.lease,
            at=self.now,
            call=client.true(tenure.sent),
            until=client.true(tenure.end),
            ttl_ms=tenure.ttl_ms / client.rate,
        )

    def denied(self, client: WholeClient, asking: Asking, code: str, text: str) -> None:
        """As `Around.denied`."""
        del client, text
        self._tally.denied[code] += 1
        self._story.fail(asking.name, self.now)

    def stopped(self, client: WholeClient, tenure: Tenure, how: str) -> None:
        """As `Around.stopped`."""
        self._judge.stopped(client.number, tenure.units)
        if how == "released":
            self._story.release(tenure.lease, call=self.now)
        else:
            self._tally.lost[how] += 1
            self._story.lost(tenure.lease, self.now)

    def released(self, client: WholeClient, lease: str, call: float) -> None:
        """As `Around.released`."""
        del client
        self._story.release(lease, call=call, at=self.now, ok=True)
