"""Three hosts of a test and the network between them: `c` claims, all have a pool with one unit."""

from collections import Counter
from collections.abc import Callable

from parties.party_node import pool

from holdall.machine.contract import (
    Address,
    Boot,
    CancelTimer,
    ClockRead,
    Message,
    ProtocolViolation,
    Received,
    Record,
)
from holdall.machine.host import Arrival, Host, Turn
from holdall.parties.claimant_side import ClaimantSide
from holdall.parties.pool_side import PoolSide
from holdall.protocols.chain.claimant import Claimant
from holdall.protocols.chain.settling import Settings
from holdall.protocols.vocabulary import Acquire, ClaimId, Stamp, Terms, Visit

TTL_MS = 30_000
VALID_MS = 28_900
EXPIRES_MS = 30_600
CLAIM = ClaimId("c", 1, 1)
SETTINGS = Settings(repeat_ms=2_000, repeat_most_ms=10_000)


class Net:
    """Hosts `c` (claims) and `n0`, `n1` (pools); a message takes 10 ms, unless `lost` says that it is lost."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.hosts = {"c": self._claimant(), "n0": self._pools("n0"), "n1": self._pools("n1")}
        self.records: dict[str, dict[str, Record]] = {name: {} for name in self.hosts}
        self.timers: dict[tuple[str, str], int] = {}
        self.flying: list[tuple[int, int, Address, Address, Message]] = []
        self.told: list[tuple[int, Message]] = []
        """(time, what the agent of `c` is told)."""
        self.lost: Callable[[str, str, Message], bool] = lambda _sender, _to, _message: False
        self.freed: dict[str, int] = {}
        """Node -> when its unit was free again."""
        self.refused: list[str] = []
        self.kinds: Counter[str] = Counter()
        """Messages between hosts so far."""
        self._sent = 0
        for name in self.hosts:
            self._carry_out(name, self.hosts[name].start())

    def _claimant(self, incarnation: int = 1, epoch: int = 1) -> Host:
        claimant = Claimant("c", Address("c", "agent"), repeat_ms=2_000, repeat_most_ms=10_000)
        side = PoolSide("c", [pool("gpu", "0")], epoch=epoch, settings=SETTINGS)
        return Host("c", {"claimant": ClaimantSide(claimant, incarnation=incarnation), "manager": side})

    def _pools(self, name: str, epoch: int = 1) -> Host:
        return Host(name, {"manager": PoolSide(name, [pool("gpu", "0")], epoch=epoch, settings=SETTINGS)})

    def side(self, name: str) -> PoolSide:
        side = self.hosts[name].parts["manager"]
        assert isinstance(side, PoolSide)
        return side

    def tell(self, message: Message) -> None:
        arrival = Arrival("claimant", Received(Address("c", "agent"), message))
        self._carry_out("c", self.hosts["c"].turn([arrival]))

    def claim(
        self,
        *nodes: str,
        claim: ClaimId = CLAIM,
        wait: bool = True,
        for_ms: int | None = None,
        stamp: Stamp | None = None,
        epoch: int = 1,
    ) -> None:
        need = tuple(Visit(node, ((("gpu", 1),),), epoch=epoch) for node in nodes)
        self.tell(Acquire(claim, need, wait=wait, terms=Terms(ttl_ms=TTL_MS, for_ms=for_ms), stamp=stamp))

    def run_until(self, end_ms: int) -> None:
        while True:
            due = min(self.timers.items(), key=lambda item: (item[1], item[0]), default=None)
            mail = min(self.flying, key=lambda one: one[:2], default=None)
            if mail is not None and (due is None or mail[0] <= due[1]) and mail[0] <= end_ms:
                self.flying.remove(mail)
                self.now_ms = mail[0]
                _, _, sender, to, message = mail
                self._deliver(to, Received(sender, message))
            elif due is not None and due[1] <= end_ms:
                (name, timer), self.now_ms = due[0], due[1]
                del self.timers[due[0]]
                self._carry_out(name, self.hosts[name].turn([self.hosts[name].fire(timer)]))
            else:
                self.now_ms = end_ms
                return

    def crash(
        self,
        name: str,
        *,
        kind: str = "same",
        epoch: int = 1,
        records: dict[str, Record] | None = None,
        quarantine_ms: int = 0,
    ) -> None:
        """Down and up again at once; `records`: what its journal has, if that lacks its last turns."""
        self.timers = {key: at for key, at in self.timers.items() if key[0] != name}
        self.flying = [one for one in self.flying if one[3].node != name]
        self.hosts[name] = self._claimant(2, epoch) if name == "c" else self._pools(name, epoch)
        if kind == "lost":
            self.records[name] = {}
        elif records is not None:
            self.records[name] = dict(records)
        boot = Boot(kind, epoch, 2, quarantine_ms, fence_base=epoch << 20 if kind == "lost" else 0)
        turn = self.hosts[name].recover(dict(self.records[name]), boot)
        self._carry_out(name, turn)

    def claimant(self) -> ClaimantSide:
        side = self.hosts["c"].parts["claimant"]
        assert isinstance(side, ClaimantSide)
        return side

    def heard(self, kind: type[Message]) -> list[int]:
        return [at for at, message in self.told if isinstance(message, kind)]

    def _deliver(self, to: Address, event: Received) -> None:
        clock = Received(Address(to.node, "node"), ClockRead(self.now_ms + 1, self.now_ms + 1))
        try:
            turn = self.hosts[to.node].turn([Arrival(to.part, clock), Arrival(to.part, event)])
        except ProtocolViolation as error:
            self.refused.append(str(error))
            return
        self._carry_out(to.node, turn)

    def _carry_out(self, name: str, turn: Turn) -> None:
        for key, record in turn.saves.items():
            if record is None:
                self.records[name].pop(key, None)
            else:
                self.records[name][key] = record
        for timer, effect in turn.timers.items():
            if isinstance(effect, CancelTimer):
                self.timers.pop((name, timer), None)
            else:
                self.timers[name, timer] = self.now_ms + effect.after_ms
        for sender, to, message in turn.sends:
            self.kinds[type(message).__name__] += to.node != sender.node
            if to.node == "c" and to.part == "agent":
                self.told.append((self.now_ms, message))
            elif to.part in self.hosts[to.node].parts and not self.lost(sender.node, to.node, message):
                self._sent += 1
                self.flying.append((self.now_ms + 10, self._sent, sender, to, message))
        for node in ("n0", "n1"):
            if self.side(node).book.service.pools["gpu"].free_count():
                self.freed.setdefault(node, self.now_ms)
            else:
                self.freed.pop(node, None)


def cut(one: str, other: str) -> Callable[[str, str, Message], bool]:
    return lambda sender, to, _message: {sender, to} == {one, other}
