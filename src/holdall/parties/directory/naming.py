"""The start of a node among others, and its name: hello, who objects, and what happens when two have one name.

A name is for people. Safety rests on ids alone, so a clash that a partition has hidden is an inconvenience: the later
of the two says so and is left out of planning until one of them is renamed or forgotten.
"""

from typing import Self

from holdall.machine.contract import CancelTimer, Save, SetTimer
from holdall.model.durations import show_duration
from holdall.parties.directory.gossip import Gossip
from holdall.parties.directory.known_nodes import Known, seniority
from holdall.parties.directory.messages import (
    OUTCAST_KEY,
    OWN_NAME_KEY,
    Cloned,
    Hello,
    MayServe,
    MustStop,
    NameTaken,
    Outcast,
    OwnName,
    Presence,
    Row,
    StartRefused,
    Tombstone,
    Welcome,
)
from holdall.parties.directory.state import DirectoryState

HELLO_TIMER = "hello"
LISTEN_TIMER = "listen"
PRESENCE_ROUNDS = 10
"""How often a serving node asks whether another process has its identity."""
STARTING_ROUNDS = 4
"""How long the name of a node that has said Hello is kept for it."""
STARTING_MAX = 100


class Naming:
    """How this node starts, and how it answers others that start."""

    def __init__(self, state: DirectoryState, gossip: Gossip) -> None:
        self._state = state
        self._gossip = gossip
        self.asked: dict[str, bool] = {}
        """Who was asked at the start -> whether it has welcomed."""
        self.hellos = 0
        self.read_from = ""
        """Whom this start reads the directory from."""
        self.has_answer = False
        self.has_read = False
        self.listening = False
        self.starting: dict[str, tuple[str, int]] = {}
        """Nodes that have said Hello and do not serve yet -> (name, round)."""
        self.clashes: set[str] = set()
        """Ids of nodes of the own name that the log has been told about."""

    # ------------------------------------------------------------ the own start

    def begin(self) -> None:
        """Ask those who are known, or serve at once when there are none."""
        if self._state.known.by_id:
            self._ask()
        else:
            self._serve()

    def hello_over(self) -> None:
        """Pause over: ask again who has not answered, or go on without."""
        if self._state.phase != "starting":
            return
        if self.hellos >= self._state.settings.hello_times:
            self._serve()
        else:
            self._ask()

    def listened(self) -> None:
        """Nobody else runs under this identity."""
        if self._state.phase == "starting":
            self._serve()

    def answered(self, peer: str) -> None:
        """Somebody has told where the two differ: after it and the pages before it the directory may be known."""
        self.has_answer = self.has_answer or peer == self.read_from
        self.has_read_more()

    def has_read_more(self) -> None:
        """Something was told."""
        if self._state.phase == "starting" and self.has_answer and not self.has_read:
            self.has_read = all(known.is_complete for known in self._state.known.by_id.values())
            self._listen()

    def welcomed(self, peer: str, message: Welcome) -> None:
        """One more that has nothing against this start."""
        state = self._state
        if state.phase != "starting" or message.instance != state.settings.instance:
            return
        if message.known.node == state.settings.node and state.own.is_foretold(message.known):
            state.own.rebut(message.known, 0)
        self.asked[peer] = True
        if not self.read_from:
            self.read_from = peer
            self._gossip.open(peer)
        self._listen()

    def name_taken(self, message: NameTaken) -> None:
        """Another node has this node's name. Once this node serves, the exchanges settle it."""
        state = self._state
        if state.phase != "starting" or message.instance != state.settings.instance:
            return
        name = state.settings.name
        silent = f", silent for {show_duration(message.silent_ms)}" if message.silent_ms >= 10_000 else ""
        where = f" by {message.address}" if message.address else ""
        self._refuse(
            f'node name "{name}" is in use{where} (key {message.node[:8]}…{silent}). '
            f"Choose [node].name, or run: holdall forget {name}"
        )

    def cloned(self, message: Cloned) -> None:
        """Others have heard of a later start of this identity."""
        state = self._state
        if state.phase == "starting" and message.instance == state.settings.instance:
            self._refuse(self._clone_text(f" at {message.address}" if message.address else ""))

    def outcast(self, tombstone: Tombstone) -> None:
        """An operator has removed this node."""
        state = self._state
        if state.phase not in {"starting", "serving"}:
            return
        state.out.append(Save(OUTCAST_KEY, Outcast(tombstone.name, tombstone.by)))
        text = outcast_text(tombstone.name, tombstone.by)
        if state.phase == "starting":
            self._refuse(text)
            return
        state.phase = "outcast"
        state.warn(text)
        for node in sorted(state.known.by_id):
            state.known.remove(node, state.out)

    def present(self, message: Presence) -> None:
        """A process of this identity: this one, as the bus gives it back, or another.

        One that does not answer this process may be an earlier one of this node, which has ended since: it is asked.
        """
        state = self._state
        settings = state.settings
        if message.instance == settings.instance:
            return
        later = (state.own.incarnation, settings.instance) > (message.incarnation, message.instance)
        if message.to != settings.instance:
            state.show_presence(message.instance)
            if state.phase == "serving" and not later:
                state.warn("another process has started with the identity of this node; it is told to end")
        elif state.phase == "starting" and (message.serving or later):
            self._refuse(self._clone_text(""))
        elif state.phase == "serving" and message.serving and later:
            state.phase = "refused"
            state.tell_node(MustStop(self._clone_text("")))

    # ------------------------------------------------------------ others' starts

    def hello(self, peer: str, message: Hello) -> None:
        """Another node starts: say whether anything known speaks against it."""
        state = self._state
        known = state.known.by_id.get(peer)
        spoken = (0, "") if known is None else known.spoken
        if message.incarnation <= spoken[0] and spoken[1] not in {"", message.instance}:
            address = "" if known is None else known.member.address
            state.tell(peer, Cloned(message.instance, spoken[0], address))
            return
        taken = self._name_taken(peer, known, message)
        if taken is not None:
            state.tell(peer, taken)
            return
        if known is not None:
            known.note_spoken(message.incarnation, message.instance)
        elif len(self.starting) < STARTING_MAX:
            self.starting[peer] = (message.name, state.round)
        told = Row(peer) if known is None else known.row()
        state.tell(peer, Welcome(message.instance, told))

    def _name_taken(self, peer: str, known: Known | None, message: Hello) -> NameTaken | None:
        """Who has the name: this node, one that was heard lately, or one that starts just now."""
        state = self._state
        settings = state.settings
        owned = known is not None and known.member.name == message.name
        if message.name == settings.name and not (owned and known is not None and self._is_senior(known)):
            if state.phase != "starting" or settings.node < peer:
                return NameTaken(message.instance, settings.node, settings.address)
            return None
        for other in state.known.named(message.name):
            if other.member.node == peer:
                break
            if state.round - other.heard <= state.keep_rounds:
                silent_ms = state.quiet_ms(other) if other.state in {"silent", "stopped"} else 0
                return NameTaken(message.instance, other.member.node, other.member.address, silent_ms)
        for node, (name, since) in self.starting.items():
            if name == message.name and node != peer and state.round - since <= STARTING_ROUNDS:
                return NameTaken(message.instance, node, "")
        return None

    def _is_senior(self, known: Known) -> bool:
        own = self._state.own
        return seniority(known) < (own.since_ms or 1 << 62, self._state.settings.node)

    # ------------------------------------------------------------ while serving

    def round(self) -> None:
        """Once a round: names that are kept no more, and whether another has the own name."""
        state = self._state
        for node in [node for node, (_, since) in self.starting.items() if self._is_over(node, since)]:
            del self.starting[node]
        if state.phase != "serving":
            return
        if state.known.by_id and state.round % PRESENCE_ROUNDS == 0:
            state.show_presence()
        self._look_for_clash()

    def _is_over(self, node: str, since: int) -> bool:
        return node in self._state.known.by_id or self._state.round - since > STARTING_ROUNDS

    def _look_for_clash(self) -> None:
        state = self._state
        name = state.settings.name
        others = [
            known
            for known in state.known.named(name)
            if known.header is not None and known.state not in {"stopped", "silent"}
        ]
        senior = [known for known in others if self._is_senior(known)]
        if state.own.aside and not senior:
            state.warn(f'node name "{name}" is this node\'s alone again: others plan with it')
        state.own.aside = bool(senior)
        for known in others:
            if known.member.node not in self.clashes:
                self.clashes.add(known.member.node)
                state.warn(self._clash_text(known, first=self._is_senior(known)))
        self.clashes.intersection_update(known.member.node for known in others)

    def _clash_text(self, known: Known, *, first: bool) -> str:
        name, member = self._state.settings.name, known.member
        where = f"{member.address or 'an unknown address'} (key {member.node[:8]}…)"
        if first:
            return (
                f'node name "{name}" was in use by {where} before: until one is renamed, others give no claims to '
                f"this node. Choose another [node].name here, or run: holdall forget {member.node}"
            )
        return (
            f'a second node named "{name}" is at {where}; others give it no claims. '
            f"Choose another [node].name there, or run: holdall forget {member.node}"
        )

    def copy_with(self, state: DirectoryState, gossip: Gossip) -> Self:
        """An independent twin over copied parts."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._state, twin._gossip = state, gossip
        twin.asked, twin.starting, twin.clashes = dict(self.asked), dict(self.starting), set(self.clashes)
        return twin

    # ------------------------------------------------------------ inside

    def _ask(self) -> None:
        state = self._state
        settings = state.settings
        self.hellos += 1
        state.show_presence()
        hello = Hello(
            settings.name, settings.instance, state.own.incarnation, state.own.since_ms, settings.address
        )
        for node in sorted(state.known.by_id):
            if not self.asked.setdefault(node, False):
                state.tell(node, hello)
        others = [node for node in sorted(self.asked) if self.asked[node]]
        if others and not self.has_read:
            self.read_from = others[self.hellos % len(others)]
            self._gossip.open(self.read_from)
        state.out.append(SetTimer(HELLO_TIMER, settings.hello_ms))

    def _listen(self) -> None:
        """When all who live have answered, only a second process of this identity may still object."""
        state = self._state
        if state.phase != "starting" or self.listening or not self.has_read:
            return
        known = state.known.by_id
        waiting = [node for node, answered in self.asked.items() if not answered]
        if all(known[node].state in {"silent", "stopped"} for node in waiting):
            self.listening = True
            state.out.append(CancelTimer(HELLO_TIMER))
            state.out.append(SetTimer(LISTEN_TIMER, state.settings.listen_ms))

    def _serve(self) -> None:
        state = self._state
        state.phase = "serving"
        own = state.own
        if not own.since_ms:
            own.since_ms = max(state.settings.started_wall_ms, 1)
            state.out.append(Save(OWN_NAME_KEY, OwnName(state.settings.name, own.since_ms)))
        state.tell_node(MayServe())
        if state.known.by_id:
            self._gossip.begin_if_due()
            self._gossip.announce(0)

    def _refuse(self, text: str) -> None:
        self._state.phase = "refused"
        self._state.tell_node(StartRefused(text))

    def _clone_text(self, where: str) -> str:
        return (
            f"another process with the identity of this node has been started{where}: this state folder is a copy, "
            "or an old backup of one that went on. Start with an empty state folder (it gets an identity of its own)"
        )


def outcast_text(name: str, by: str) -> str:
    """For the operator of a node that was forgotten."""
    return (
        f'this node ("{name}") was removed from the system by "holdall forget" at {by}: no other node deals with it. '
        "To come back, start with an empty state folder and join again"
    )
