"""What is done to whom. Every fault ends by itself after a while, or when all are ended."""

import functools
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from chaos.crowd import Crowd
from chaos.hosts import Host
from chaos.network import Network
from chaos.plan import NO_NETWORK, Plan
from chaos.processes import halt, send
from chaos.reclaim import Death, Trouble

from holdall.client.history import HistoryWriter


@dataclass(slots=True)
class Ongoing:
    """Something that is undone when its time is over."""

    until: float
    undo: Callable[[], None]


@dataclass(slots=True)
class Down:
    """A host without a node that serves."""

    since: int
    starts_at: float
    with_clients: bool


class Faults:
    """Draws and does them; `keep` is called again and again."""

    def __init__(
        self,
        plan: Plan,
        hosts: Sequence[Host],
        crowd: Crowd,
        network: Network | None,
        history: HistoryWriter,
    ) -> None:
        self.plan, self.hosts, self.crowd, self.network, self.history = plan, hosts, crowd, network, history
        self.chance = random.Random(plan.seed)
        self.counts: Counter[str] = Counter()
        self.problems: list[str] = []
        self.down: dict[int, Down] = {}
        self.stopped: set[int] = set()
        """Hosts whose node is stopped."""
        self.deaths: list[Death] = []
        self.troubles: list[Trouble] = []
        self.lost_journals: list[Death] = []
        self._cuts: set[tuple[int, int]] = set()
        self._lossy: set[int] = set()
        self._ongoing: list[Ongoing] = []
        self._kinds: dict[str, Callable[[], object]] = {
            "kill-client": self._kill_client,
            "kill-below-run": self._kill_below_run,
            "kill-node": self._kill_node,
            "kill-server": self._kill_server,
            "lose-host": self._lose_host,
            "lose-journal": self._lose_journal,
            "pause-client": self._pause_client,
            "pause-node": self._pause_node,
            "pause-server": self._pause_server,
            "cut": self._cut,
            "loss": self._lose_packets,
        }
        if network is None:
            self._kinds = {kind: do for kind, do in self._kinds.items() if kind not in NO_NETWORK}
        self._due: dict[str, float] = {}
        self._log = crowd.folder / "faults.log"

    # ------------------------------------------------------------ the course of it

    def keep(self) -> None:
        """Whatever is due: ends of faults, starts of dead nodes, new faults."""
        now = time.monotonic()
        self._keep_ongoing(now)
        self._keep_nodes(now)
        for kind, do in self._kinds.items():
            if kind not in self.plan.often:
                continue
            due = self._due.setdefault(kind, now + self.plan.first_after * self._drawn(self.plan.often[kind]))
            if due <= now:
                do()
                self._due[kind] = now + self._drawn(self.plan.often[kind])

    def end(self) -> None:
        """All of them are over; dead nodes are started and waited for."""
        for one in self._ongoing:
            one.until = 0.0
        for down in self.down.values():
            down.starts_at = 0.0
        end = time.monotonic() + 60
        while (self._ongoing or self.down) and time.monotonic() < end:
            self._keep_ongoing(time.monotonic())
            self._keep_nodes(time.monotonic())
            time.sleep(0.02)
        if self.down:
            self.problems.append(f"nodes of hosts {sorted(self.down)} do not serve again")

    def _keep_ongoing(self, now: float) -> None:
        over = [one for one in self._ongoing if one.until <= now]
        self._ongoing = [one for one in self._ongoing if one.until > now]
        for one in over:
            one.undo()

    def _keep_nodes(self, now: float) -> None:
        for host in self.hosts:
            down = self.down.get(host.number)
            if down is None:
                if host.process is not None and host.process.poll() is not None:
                    self.problems.append(
                        f"the node of {host.name} ended with {host.process.returncode}: {host.said()[-3000:]}"
                    )
                    host.process = None
                    self._is_down(host, with_clients=False)
            elif host.process is None:
                if down.starts_at <= now:
                    host.begin()
            elif host.process.poll() is not None:
                self.problems.append(f"{host.name} does not start: {host.said()[-3000:]}")
                host.process, down.starts_at = None, now + 1.0
            elif host.serves():
                self._is_back(host, down)

    def _is_down(self, host: Host, *, with_clients: bool) -> None:
        self._note(f"node of {host.name} is dead" + (" with its clients" if with_clients else ""))
        self.down[host.number] = Down(
            self.history.now(), time.monotonic() + self._drawn(self.plan.away_s), with_clients
        )

    def _is_back(self, host: Host, down: Down) -> None:
        del self.down[host.number]
        self._note(f"node of {host.name} is back")
        now = self.history.now()
        self.history.fault("node-down", start=down.since, end=now, excuse=True)
        self.deaths.append(Death(host.name, down.since, now, down.with_clients))
        self.troubles.append(Trouble(host.name, down.since, now))

    def _note(self, text: str) -> None:
        """For who looks for a cause: what was done to whom, with the stamp of the histories."""
        with self._log.open("a") as log:
            log.write(f"{self.history.now()} {text}\n")

    def _drawn(self, bounds: tuple[float, float]) -> float:
        return self.chance.uniform(*bounds)

    def _for_a_while(
        self, kind: str, whom: str, undo: Callable[[], None], *, client: str | None = None
    ) -> None:
        """It goes on for a time that is drawn; then it is undone, and said."""
        since = self.history.now()
        self._note(f"{kind} {whom}")

        def over() -> None:
            undo()
            self._note(f"{kind} {whom} is over")
            self.history.fault(kind, start=since, end=self.history.now(), excuse=True, client=client)

        self.counts[kind] += 1
        least, most = self.plan.for_s
        # Most are short, or a wide claim would hardly ever find all its nodes.
        self._ongoing.append(Ongoing(time.monotonic() + self.chance.triangular(least, most, least), over))

    # ------------------------------------------------------------ nodes

    def _up(self) -> list[Host]:
        """Hosts whose node serves and runs."""
        return [
            host for host in self.hosts if host.number not in self.down and host.number not in self.stopped
        ]

    def _to_kill(self) -> Host | None:
        """At most one node is dead at a time."""
        up = self._up()
        return self.chance.choice(up) if up and not self.down else None

    def _kill_node(self) -> None:
        host = self._to_kill()
        if host is not None:
            host.kill()
            self._is_down(host, with_clients=False)
            self.counts["kill-node"] += 1

    def _lose_host(self) -> None:
        """Node, server and all clients of one host at once; half of the time as by a loss of power."""
        host = self._to_kill()
        if host is None:
            return
        host.kill()
        self._is_down(host, with_clients=True)
        for place in self.crowd.busy():
            if place.host is host:
                self.crowd.kill(place)
        if self.chance.random() < 0.5:
            host.lose_power()
            self.counts["lose-power"] += 1
        else:
            self.counts["lose-host"] += 1

    def _lose_journal(self) -> None:
        """With the clients of the host: what a new disk in a new machine means."""
        host = self._to_kill()
        if host is None:
            return
        host.kill()
        self._is_down(host, with_clients=True)
        for place in self.crowd.busy():
            if place.host is host:
                self.crowd.kill(place)
        host.lose_journal()
        self.counts["lose-journal"] += 1

    def _pause_node(self) -> None:
        up = self._up()
        host = self.chance.choice(up) if up and not self.stopped else None
        if host is None or host.process is None or not halt(host.process.pid):
            return
        process, since = host.process, self.history.now()
        self.stopped.add(host.number)

        def go_on() -> None:
            process.send_signal(signal.SIGCONT)
            self.stopped.discard(host.number)
            self.troubles.append(Trouble(host.name, since, self.history.now()))

        self._for_a_while("pause-node", host.name, go_on)

    # ------------------------------------------------------------ servers

    def _server(self) -> int | None:
        pids = [pid for host in self._up() if (pid := host.server_pid()) is not None]
        return self.chance.choice(pids) if pids else None

    def _kill_server(self) -> None:
        pid = self._server()
        if pid is not None and send(pid, signal.SIGKILL):
            self._note(f"kill-server {pid}")
            self.counts["kill-server"] += 1

    def _pause_server(self) -> None:
        pid = self._server()
        if pid is not None and halt(pid):
            self._for_a_while("pause-server", str(pid), lambda: self._continue(pid))

    @staticmethod
    def _continue(pid: int) -> None:
        send(pid, signal.SIGCONT)

    # ------------------------------------------------------------ clients

    def _kill_client(self) -> None:
        victims = self.crowd.victims()
        if victims and self.crowd.kill(self.chance.choice(victims)):
            self.counts["kill-client"] += 1

    def _kill_below_run(self) -> None:
        """Of a `holdall run`: its guardian, its command, or the wrapper where it has neither yet."""
        victims = [place for place in self.crowd.victims() if place.is_command]
        if not victims:
            return
        place = self.chance.choice(victims)
        below = self.crowd.kill_below(place, self.chance)
        if below:
            self.counts[f"kill-{below}"] += 1
        elif self.crowd.kill(place):
            self.counts["kill-wrapper"] += 1

    def _pause_client(self) -> None:
        victims = self.crowd.victims()
        place = self.chance.choice(victims) if victims else None
        if place is None or place.process is None or not self.crowd.halt(place):
            return
        process = place.process
        go_on = functools.partial(self.crowd.go_on, place, process)
        self._for_a_while("pause-client", place.name, go_on, client=place.name)

    # ------------------------------------------------------------ the network

    def _cut(self) -> None:
        """Two hosts, or one host and all others; both ways or one way."""
        assert self.network is not None
        if len(self._cuts) > 2 * len(self.hosts):
            return
        one, other = self.chance.sample(range(len(self.hosts)), 2)
        kind = self.chance.choice(
            ("pair", "pair", "pair-one-way", "pair-one-way", "host", "host-deaf", "host-dumb")
        )
        everybody = [host.number for host in self.hosts if host.number != one]
        ways = {
            "pair": [(one, other), (other, one)],
            "pair-one-way": [(one, other)],
            "host": [way for each in everybody for way in ((one, each), (each, one))],
            "host-deaf": [(each, one) for each in everybody],
            "host-dumb": [(one, each) for each in everybody],
        }[kind]
        fresh = [way for way in ways if way not in self._cuts]
        if not fresh:
            return
        network = self.network
        for sender, receiver in fresh:
            network.cut(sender, receiver)
        self._cuts.update(fresh)

        def mend() -> None:
            for sender, receiver in fresh:
                network.mend(sender, receiver)
            self._cuts.difference_update(fresh)

        self._for_a_while(f"cut-{kind}", ", ".join(f"h{sender} to h{to}" for sender, to in fresh), mend)

    def _lose_packets(self) -> None:
        assert self.network is not None
        host, network = self.chance.choice(self.hosts).number, self.network
        if host in self._lossy:
            return
        self._lossy.add(host)
        network.lose(host, self.chance.randint(*self.plan.loss_percent))

        def none() -> None:
            network.lose_none(host)
            self._lossy.discard(host)

        self._for_a_while("loss", f"h{host}", none)
