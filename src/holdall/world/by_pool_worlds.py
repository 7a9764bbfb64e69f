"""Named worlds of protocols that ask each pool apart: two parties, chains, rings, everybody wants all, mixed units.

A pool is a node of its own unless two are named on one. Source: configurations of the lanes, game and strong/weak
specifications (their sections on what was explored); the order of visiting plays no part here.
"""

from holdall.protocols.vocabulary import Vector
from holdall.world.named import REPEAT, plan, vector, world
from holdall.world.plan import ClaimPlan, GiveBack, Place, Swap, World


def by_pool_worlds(repeat: int | None = None) -> dict[str, World]:
    """All of them; `repeat` is how often claims come that would come for ever."""
    again = REPEAT if repeat is None else repeat
    made = [
        world("one", "a", ["0:a"]),
        world("pair", "a", ["0:a", "0:a"]),
        world("three", "a", ["0:a", "0:a", "0:a"]),
        world("same", "a", ["0->1", "0->1"]),
        world("node2", "ab", ["0:ab", "0:ab"]),
        world("mixed", "ab", ["0:ab", "0:a", "0:b"]),
        world("sub", "a", ["0->1", "0"]),
        world("y", "a", ["0->1", "0", "1"]),
        world("chain", "a", ["0->1", "1->2"]),
        world("chain3", "a", ["0", "0->1", "1"]),
        world("opposite", "a", ["0->1", "1->0"]),
        world("opposite+1", "a", ["0->1", "1->0", "1"]),
        world("opp3", "a", ["0->1", "1->0", "0->1"]),
        world("opposite-ever", "a", [_ever("0->1"), _ever("1->0")]),
        world("opp3-ever", "a", [_ever("0->1"), _ever("1->0"), _ever("1->0")]),
        world("stream", "a", [_ever("0"), _ever("1"), "0->1"]),
        world("stream1", "a", [_ever("0"), _ever("0"), "0"]),
        world("streams", "a", [_ever("0"), _ever("0"), _ever("1"), _ever("1"), "0->1"]),
        world("chain3pairs", "a", ["0->1", "1->2", "1->0"]),
        world("common", "a", ["0->2", "1->2"]),
        world("twopools", "ab", ["0:ab", "0:ab"]),
        world("ring3", "a", ["0->1", "1->2", "2->0"]),
        world("same3", "a", ["0->1", "0->1", "0->1"]),
        world("same2+1", "a", ["0->1", "0->1", "1"]),
        world("k3", "a", ["0->1->2", "2->1->0"]),
        world("units3", "2a", ["0:2a", "0:a", "0:a"]),
        world("units2", "2a", ["0:2a->1:a", "0:a->1:2a"]),
        world("unitsopp", "2a", ["0:2a->1:a", "1:2a->0:a", "0:a"]),
        world("unitsmix", "2a", ["0:2a->1:a", "0:a->1:a", "0:a"]),
        world("own", "a", [plan("0->1", host="c1"), plan("0", host="c1")]),
        world("own2", "a", [plan("0", host="c1"), plan("0", host="c1"), plan("0", host="c2")]),
        world("again", "a", [plan("0->1", repeat=again), plan("0", repeat=again)]),
        world("again1", "a", [plan("0", repeat=again), plan("0", repeat=again)]),
        world("now", "a", ["0->1", plan("0->1", wait=False)]),
        world("nows", "a", [plan("0->1", wait=False), plan("1->0", wait=False)]),
        world("shrink", "a", [plan("0->1", steps=(_keep(n0="a", n1=""),)), "0->1"]),
        world("shrink2", "2a", [plan("0:2a", steps=(_keep(n0="a"),)), "0:a", "0:a"]),
        world("swap", "a", [plan("0", steps=(_swap("n0", "n1"),)), "0->1"]),
        world("swaps", "a", [plan("0", steps=(_swap("n0", "n1"),)), plan("1", steps=(_swap("n1", "n0"),))]),
    ]
    return {one.name: one for one in made}


def _ever(text: str) -> ClaimPlan:
    return plan(text, endless=True)


def _keep(**kept: str) -> GiveBack:
    keep: tuple[tuple[str, Vector], ...] = tuple((node, vector(text)) for node, text in sorted(kept.items()))
    return GiveBack(keep)


def _swap(leaves: str, comes: str) -> Swap:
    return Swap((Place(comes, (vector("a"),)),), ((leaves, vector("a")),))
