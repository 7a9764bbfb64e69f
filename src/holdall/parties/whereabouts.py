"""Where a command should run whose caller says `--on any`: here, unless its needs are useful on other nodes only.

Pools of reach `host` serve what runs on their node. So the place follows the needs: with none of those pools among
them the command runs here, else on a node that can serve all needs when it runs there.
"""

from holdall.model import frames
from holdall.model.errors import BadSpec
from holdall.model.run_frames import RunPlace, RunWhere
from holdall.parties.planning.places import Placement, place, readable
from holdall.parties.planning.ways import matching
from holdall.parties.state import Session, State


class Whereabouts:
    """Answers from what this node knows of all pools."""

    def __init__(self, state: State) -> None:
        self._state = state

    def where(self, session: Session, frame: RunWhere) -> None:
        """Tell the node's name."""
        if not readable(frame.needs):
            text = "needs that can't be read: each names at least one pool."
            self._state.tell(session.connection, frames.Denied(frame.n, BadSpec.code, text))
            return
        node = self.best(frame.needs)
        self._state.tell(session.connection, RunPlace(frame.n, self._state.name_of(node)))

    def best(self, needs: tuple[frames.Need, ...]) -> str:
        """The node's id; the own one where none can serve it, which then says why not.

        Preferred: nodes that serve, then those with all units free now, then this one, then those with most free.
        """
        state = self._state
        options = [option for need in needs for option in need.options]
        facts = state.system.facts({pool for option in options for pool in option.pools})
        tied = [one for option in options for one in matching(option, facts) if one.host_only]
        if not tied:
            return state.own
        best: tuple[tuple[bool, bool, int, bool, int, str], str] | None = None
        for node in sorted({state.own, *(one.node for one in tied)}):
            found = place(needs, facts, node)
            if not isinstance(found, Placement):
                continue
            tier = state.system.tier_of(node)
            free = sum(one.free for one in tied if one.node == node)
            rank = (tier > 1, found.ready is None, tier, node != state.own, -free, node)
            if best is None or rank < best[0]:
                best = (rank, node)
        return state.own if best is None else best[1]
