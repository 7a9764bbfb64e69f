"""The other nodes of a directory: what each has said, what its pools are, and what of that is news for the agent."""

from typing import Self

import msgspec

from holdall.machine.contract import Effect, Forget, Save
from holdall.parties.directory.messages import (
    MEMBER_PREFIX,
    NODES_MAX,
    POOLS_KNOWN_MAX,
    POOLS_PER_NODE_MAX,
    Header,
    Member,
    Page,
    Row,
)
from holdall.parties.directory.pool_log import PoolLog, news_of
from holdall.parties.neighbours import NeighboursChanged, NodeState, PoolNews


class Known:
    """One other node. Without header it is only known to exist: from joining, or from before a restart."""

    def __init__(self, member: Member, round_: int) -> None:
        self.member = member
        self.header: Header | None = None
        self.beat = 0
        self.heard = round_
        """Round in which its beat was renewed last."""
        self.silent = True
        self.log = PoolLog()
        self.overlaid = False
        """Pools of an earlier life stand in until those of this one are all known."""
        self.spoken: tuple[int, str] = (0, "")
        """Incarnation and instance of which the node itself has told, not others."""

    @property
    def life(self) -> tuple[int, int]:
        """As in `Row.life`; (-1, 0): nothing was told."""
        return (-1, 0) if self.header is None else (self.header.rebuttal, self.header.incarnation)

    @property
    def is_complete(self) -> bool:
        """Whether all pools of its life are known."""
        return self.header is None or self.log.have >= self.header.initial

    @property
    def state(self) -> NodeState:
        """The one word for others."""
        if self.header is not None and self.header.state == "stopped":
            return "stopped"
        if self.header is None or self.silent:
            return "silent"
        return self.header.state

    def note_spoken(self, incarnation: int, instance: str) -> None:
        """The node itself has told of this start."""
        if incarnation > self.spoken[0]:
            self.spoken = (incarnation, instance)

    def row(self) -> Row:
        """How much is known of it."""
        header = self.header
        if header is None:
            return Row(self.member.node)
        return Row(
            self.member.node, header.rebuttal, header.incarnation, self.beat, header.said, self.log.have
        )

    def copy(self) -> Self:
        """An independent twin."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.log = self.log.copy()
        return twin


class KnownNodes:
    """All other nodes by id, the pools by name, and what has changed since it was last told."""

    def __init__(self) -> None:
        self.round = 0
        """Of this directory: its measure of time."""
        self.silent_rounds = 0
        """So many without news of a node are silence; 0: as many as the number of nodes asks for."""
        self.by_id: dict[str, Known] = {}
        self.by_pool_name: dict[str, set[tuple[str, str]]] = {}
        """Pool name -> (node, pool id)."""
        self.lines = 0
        """Of all logs."""
        self.is_full = False
        """Something was left out because there are too many nodes or pools."""
        self._changed_pools: set[str] = set()
        self._changed_nodes: set[str] = set()

    # ------------------------------------------------------------ who there is

    def add(self, member: Member, out: list[Effect] | None) -> Known | None:
        """A node that was not known. None: there are too many. Without `out` it is not saved (it has been)."""
        if len(self.by_id) >= NODES_MAX:
            self.is_full = True
            return None
        known = self.by_id[member.node] = Known(member, self.round)
        self._changed_nodes.add(member.node)
        if out is not None:
            out.append(Save(MEMBER_PREFIX + member.node, member))
        return known

    def remove(self, node: str, out: list[Effect]) -> None:
        """It has been forgotten."""
        known = self.by_id.pop(node)
        for news in list(known.log.news.values()):
            self._unlist(node, news)
        self.lines -= len(known.log.seqs)
        self._changed_nodes.add(node)
        out.append(Forget(MEMBER_PREFIX + node))

    def named(self, name: str) -> list[Known]:
        """Nodes that have this name, the one that had it first in front."""
        found = [known for known in self.by_id.values() if known.member.name == name]
        return sorted(found, key=seniority)

    def silence(self) -> int:
        """Rounds without news after which a node counts as silent: longer than news take to all."""
        return self.silent_rounds or 4 + 2 * len(self.by_id).bit_length()

    # ------------------------------------------------------------ what is told of them

    def take_page(self, known: Known, page: Page, quiet: int, out: list[Effect]) -> bool:
        """What somebody tells of this node who has not heard of it for `quiet` rounds. True: new lines were in it."""
        header = page.header
        life = (header.rebuttal, header.incarnation)
        if life < known.life:
            return False
        if life > known.life:
            known.beat, known.heard = page.beat, self.round - quiet
            known.silent = quiet > self.silence()
            known.overlaid = True
            self.lines -= len(known.log.seqs)
            known.log.begin_again()
            self._take_header(known, header, out)
        elif known.header is not None and header.said > known.header.said:
            self._take_header(known, header, out)
        self.take_beat(known, page.beat)
        return self._take_lines(known, page)

    def take_beat(self, known: Known, beat: int) -> None:
        """A beat of the life that is known."""
        if beat <= known.beat:
            return
        known.beat, known.heard = beat, self.round
        if known.silent:
            known.silent = False
            self._changed_state(known)

    def look_for_silence(self) -> None:
        """Once a round: who has not been heard for too long counts as silent."""
        silence = self.silence()
        for known in self.by_id.values():
            if not known.silent and self.round - known.heard > silence:
                known.silent = True
                self._changed_state(known)

    def take_changes(self) -> NeighboursChanged | None:
        """What the agent has to be told; None: nothing."""
        if not self._changed_nodes and not self._changed_pools:
            return None
        told = NeighboursChanged(tuple(sorted(self._changed_pools)), tuple(sorted(self._changed_nodes)))
        self._changed_pools.clear()
        self._changed_nodes.clear()
        return told

    def copy(self) -> Self:
        """An independent twin."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.by_id = {node: known.copy() for node, known in self.by_id.items()}
        twin.by_pool_name = {name: set(pools) for name, pools in self.by_pool_name.items()}
        twin._changed_pools, twin._changed_nodes = set(self._changed_pools), set(self._changed_nodes)
        return twin

    # ------------------------------------------------------------ inside

    def _take_header(self, known: Known, header: Header, out: list[Effect]) -> None:
        before = known.header
        known.header = header
        if (
            before is None
            or before.incarnation != header.incarnation
            or _standing(before) != _standing(header)
        ):
            self._changed_state(known)
        member = header.member
        if member != known.member:
            known.member = member
            out.append(Save(MEMBER_PREFIX + header.node, member))
            self._changed_nodes.add(header.node)

    def _take_lines(self, known: Known, page: Page) -> bool:
        log = known.log
        if not page.after <= log.have or page.upto < log.have:
            return False
        fresh = [line for line in page.lines if line.seq > log.have]
        if self._too_many(known, len(fresh)):
            return False
        moved = page.upto > log.have
        count = len(log.seqs)
        for line in fresh:
            pool, news = news_of(line)
            self._compare(known.member.node, log.put(line.seq, pool, news), news)
        log.have = page.upto
        self.lines += len(log.seqs) - count
        if known.overlaid and known.is_complete:
            known.overlaid = False
            for news in log.drop_unlisted():
                self._compare(known.member.node, news, None)
        return moved

    def _too_many(self, known: Known, more: int) -> bool:
        full = len(known.log.seqs) + more > 2 * POOLS_PER_NODE_MAX or self.lines + more > POOLS_KNOWN_MAX
        self.is_full = self.is_full or full
        return full

    def _compare(self, node: str, before: PoolNews | None, now: PoolNews | None) -> None:
        if before is not None and (now is None or now.name != before.name):
            self._unlist(node, before)
        if now is None:
            return
        if before is None:
            self.by_pool_name.setdefault(now.name, set()).add((node, now.pool))
        if before is None or now.free > before.free or _terms(now) != _terms(before):
            self._changed_pools.add(now.name)

    def _unlist(self, node: str, news: PoolNews) -> None:
        self._changed_pools.add(news.name)
        listed = self.by_pool_name.get(news.name)
        if listed is not None:
            listed.discard((node, news.pool))
            if not listed:
                del self.by_pool_name[news.name]

    def _changed_state(self, known: Known) -> None:
        self._changed_nodes.add(known.member.node)
        self._changed_pools.update(news.name for news in known.log.news.values())


def seniority(known: Known) -> tuple[int, str]:
    """Who had a name first comes first; who has not said since when comes last."""
    since = known.header.since_ms if known.header is not None else 0
    return (since or 1 << 62, known.member.node)


def _standing(header: Header) -> tuple[str, int]:
    return header.state, header.epoch


def _terms(news: PoolNews) -> PoolNews:
    """What a pool is, its numbers of the moment apart."""
    return msgspec.structs.replace(news, free=0, waiting=0)
