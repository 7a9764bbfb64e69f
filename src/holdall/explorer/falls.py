"""Moves that need not happen: messages are lost or come twice, hosts end and come up again."""

from collections.abc import Iterator

import msgspec

from holdall.explorer.moves import BOOT_KIND, Move, State, Step
from holdall.explorer.table import Outcome
from holdall.explorer.turns import Turns
from holdall.machine.contract import Boot
from holdall.world.faults import KINDS, spend


class Falls(Turns):
    """The faults that the scene's budget allows."""

    crashing: tuple[int, ...] = ()
    """Hosts that may end and come up again."""

    def faults(self, state: State) -> Iterator[Step]:
        """All faults that may happen in a state, in a fixed order."""
        net, scene = state[-2], state[-1]
        left = dict(zip(KINDS, self.scenes[scene].left, strict=True))
        if left["loss"]:
            then = self._spent(scene, "loss")
            for message, rest in self.links.heads(net):
                after = (*state[:-2], rest, then)
                yield Step(Move("lose", self.mail.host_of[message], message), after, progress=False)
        if left["duplicate"]:
            then = self._spent(scene, "duplicate")
            for message, _ in self.links.heads(net):
                host = self.mail.host_of[message]
                outcome = self.tables[host].deliver(state[host], message)
                move = Move("repeat", host, message)
                yield self.after(state, move, outcome, net, then, progress=False)
        silent = self.scenes[scene].silent
        for kind in ("crash", "restart", "reboot", "wipe"):
            if left[kind]:
                for host in self.crashing:
                    if (kind in {"crash", "restart"} or host < self.nodes) and self.names[host] not in silent:
                        yield from self._comebacks(state, kind, host)
        if left["gone"]:
            for host in self.crashing:
                if host < self.nodes and self.names[host] not in silent:
                    yield from self._gone(state, host)

    def _spent(self, scene: int, kind: str) -> int:
        key = (scene, -1, kind)
        known = self.lasting.get(key)
        if known is None:
            value = self.scenes[scene]
            then = msgspec.structs.replace(value, left=spend(value.left, kind))
            known = self.lasting[key] = self.scene_number(then)
        return known

    def _comebacks(self, state: State, kind: str, host: int) -> Iterator[Step]:
        """The host ends and comes up: between two turns, and for a crash also within any turn that may come next."""
        yield from self._come_up(state, kind, Move(kind, host))
        if kind != "crash":
            return
        for outcome, net, scene, move in self._next_turns(state, host):
            for count in range(len(outcome.sends)):
                cut = list(state)
                left = self.links.sent(net, outcome.sends[:count], _mask(outcome.sends[:count]))
                cut[host], cut[-2], cut[-1] = outcome.local, self.reaching(left, scene), scene
                yield from self._come_up(
                    tuple(cut), kind, move._replace(kind=kind, within=move.kind, cut=count)
                )

    def _gone(self, state: State, host: int) -> Iterator[Step]:
        """The node never comes back, and any part of what it has sent is lost with it."""
        net, scene = state[-2], state[-1]
        key = (scene, host, "gone")
        then = self.lasting.get(key)
        if then is None:
            name = self.names[host]
            hearers = [one for one in self.names if one != name and self.system.told_of_gone(one, name)]
            then = self.lasting[key] = self.scene_number(self.clients.gone(self.scenes[scene], name, hearers))
        for lost, left in self.links.losses_of(self.reaching(net, then), host):
            yield Step(Move("gone", host, lost=lost), (*state[:-2], left, then), progress=False)

    def _next_turns(self, state: State, host: int) -> Iterator[tuple[Outcome, int, int, Move]]:
        """Turns of this host that could be next: (outcome, messages without the one taken, scene, move)."""
        net, scene = state[-2], state[-1]
        table = self.tables[host]
        for message, rest in self.links.to_host(net, host):
            outcome = table.deliver(state[host], message)
            told = self.scene_told(scene, outcome.notice) if outcome.notice else scene
            yield outcome, rest, told, Move("deliver", host, message)
        for ready in self.prepared(scene):
            if ready.host == host and ready.arrival is not None and not ready.act.fault:
                then: int | None = ready.then
                if ready.act.lapse is not None:
                    then = self.lapsed(state[host], ready, ready.act.lapse)
                if then is None or (ready.act.timed and net and self.timers != "any"):
                    continue
                outcome = table.arrive(state[host], ready.event, ready.arrival)
                told = self.scene_told(then, outcome.notice) if outcome.notice else then
                yield outcome, net, told, Move("act", host, ready.event, text=ready.act.text)
        if self.timers == "any" or not net:
            for timer in self.due(state, host):
                outcome = table.fire(state[host], timer)
                told = self.scene_told(scene, outcome.notice) if outcome.notice else scene
                yield outcome, net, told, Move("timer", host, timer=timer)

    def _come_up(self, state: State, kind: str, move: Move) -> Iterator[Step]:
        host, net = move.host, state[-2]
        then, boot = self._anew(state[-1], kind, host)
        if not boot.quarantine_ms and self.is_quarantined(host, state[host]):
            # A quarantine goes on after any come-back; its node saves when it is over.
            lost = self.system.boot("lost", boot.epoch)
            boot = msgspec.structs.replace(boot, quarantine_ms=lost.quarantine_ms)
        outcome = self.tables[host].recover(state[host], boot)
        for part, left in self.links.losses(net, host):
            yield self.after(state, move._replace(lost=part), outcome, left, then, progress=False)

    def _anew(self, scene: int, kind: str, host: int) -> tuple[int, Boot]:
        """The scene after a come-back, and the boot that the host is told of."""
        if kind in {"crash", "restart"}:
            then = self._spent(scene, kind)
        else:
            key = (scene, host, kind)
            known = self.lasting.get(key)
            if known is None:
                fresh = self.clients.came_up(self.scenes[scene], self.names[host], kind)
                known = self.lasting[key] = self.scene_number(fresh)
            then = known
        epoch = 1 + self.scenes[then].epochs[host] if host < self.nodes else 1
        return then, self.system.boot(BOOT_KIND[kind], epoch)


def _mask(messages: tuple[int, ...]) -> int:
    found = 0
    for message in messages:
        found |= 1 << message
    return found
