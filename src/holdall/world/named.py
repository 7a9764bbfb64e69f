"""The worlds of the chain specification, section 8, by their names there, and further ones of the same kind.

They are written as the specification writes them: `0:2a,b->1:a` visits node 0 for two units of pool a and one of
b, then node 1. `0:a|b` is an alternative. `NAME@oldest` and `NAME@reversed` let the claimants bring their stamps:
the first claim listed is the oldest, or the youngest.
"""

import re
from collections.abc import Sequence

import msgspec

from holdall.protocols.vocabulary import Vector
from holdall.world.plan import BadWorld, ClaimPlan, GiveBack, Place, PoolSize, Swap, World, checked

_TAKE = re.compile(r"(\d?)([a-z]),?")
REPEAT = 3
"""In place of "for ever" where nothing else is asked for: claims that come again and again."""


def vector(text: str) -> Vector:
    """`2a,b` -> (("a", 2), ("b", 1))."""
    return tuple(sorted((pool, int(count or "1")) for count, pool in _TAKE.findall(text)))


def places(text: str) -> tuple[Place, ...]:
    """`0:ab->1:a|b`: nodes in visiting order, alternatives in order of preference."""
    found: list[Place] = []
    for step in text.split("->"):
        node, _, wanted = step.strip().partition(":")
        found.append(Place(f"n{node}", tuple(vector(part) for part in (wanted or "a").split("|"))))
    return tuple(found)


def plan(text: str, *, host: str = "", **more: object) -> ClaimPlan:
    """One claim; `text` may name siblings after `or`: `0:a or 1:a`."""
    first, *others = text.split(" or ")
    values: dict[str, object] = {"siblings": tuple(places(other) for other in others), **more}
    return msgspec.structs.replace(ClaimPlan(host, places(first)), **values)


def world(name: str, units: str, claims: Sequence[str | ClaimPlan], **more: object) -> World:
    """A world; `units` says how many of each pool every node has (`ab`, `2a,b`), the nodes come from the claims."""
    plans: list[ClaimPlan] = []
    for number, claim in enumerate(claims, start=1):
        made = plan(claim) if isinstance(claim, str) else claim
        plans.append(made if made.host else msgspec.structs.replace(made, host=f"c{number}"))
    nodes = sorted({place.node for made in plans for place in _all_places(made)})
    sizes = tuple(PoolSize(node, pool, count) for node in nodes for pool, count in vector(units))
    made_world = World(name, sizes, tuple(plans))
    return checked(msgspec.structs.replace(made_world, **more) if more else made_world)


def _all_places(claim: ClaimPlan) -> list[Place]:
    found = [*claim.need, *(place for sibling in claim.siblings for place in sibling)]
    for step in claim.steps:
        if isinstance(step, Swap):
            found += step.add
    return found


def _again(text: str, repeat: int) -> ClaimPlan:
    return plan(text, repeat=repeat)


def _one_node() -> list[World]:
    return [
        world("n1a", "a", ["0:a"]),
        world("n1aa", "a", ["0:a", "0:a"]),
        world("n1abc", "ab", ["0:ab", "0:a", "0:b"]),
        world("n1ab4", "ab", ["0:ab", "0:a", "0:b", "0:a"]),
        world("n1tri", "abc", ["0:ab", "0:bc", "0:ac"]),
        world("n1tri4", "abc", ["0:ab", "0:bc", "0:ac", "0:a"]),
        world("n1u", "2a,b", ["0:2a,b", "0:a", "0:ab"]),
        world("n1u4", "2a,2b", ["0:2a,2b", "0:a", "0:b", "0:ab"]),
    ]


def _two_nodes() -> list[World]:
    x3 = ["0:ab->1:ab", "1:a->0:a"]
    return [
        world("x2", "ab", ["0:ab->1:ab", "1:ab->0:ab"]),
        world("x2one", "a", ["0->1", "1"]),
        world("x2low", "ab", ["0:ab->1:a", "0:b->1:ab"]),
        world("x3", "ab", [*x3, "1:ab"]),
        world("x3b", "ab", [*x3, "0:a"]),
        world("x3low", "ab", ["0:a->1:ab", "0:ab->1:b", "1:ab"]),
        world("x3opp", "ab", ["0:ab->1:a", "1:ab->0:a", "0:b->1:b"]),
        world("x3u", "2a,b", ["0:2a->1:2a,b", "1:a->0:a", "1:a"]),
        world("x3u2", "2a,b", ["0:2a->1:a", "1:2a->0:ab", "0:a->1:b"]),
        world("x4", "ab", [*x3, "1:a", "1:b"]),
        world("res", "ab", ["0:ab", "1:a->0:b", "0:a->1:a"]),
        world("own2", "ab", [plan("0:ab->1:a", host="c1"), plan("0:b->1:ab", host="c1")]),
        world("ownx2", "ab", [plan("0:ab->1:ab", host="c1"), plan("1:ab->0:ab", host="c1")]),
    ]


def _three_nodes() -> list[World]:
    keep_last = GiveBack((("n0", ()), ("n2", vector("a"))))
    return [
        world("ring3", "ab", ["0:ab->1:a", "1:ab->2:a", "2:ab->0:a"]),
        world("ring3+1", "a", ["0->1", "1->2", "2->0", "1"]),
        world("rot3", "a", ["0->1->2", "1->2->0"]),
        world("kg3", "a", ["0->1->2", "2->1->0", "1->2"]),
        world("low3", "ab", ["0:a->1:a->2:ab", "0:ab->1:b->2:a", "1:ab"]),
        world("k3", "ab", ["0:a->1:ab->2:a", "2:a->1:a->0:a"]),
        world("back3", "a", ["0->1->2", "0", "0"]),
        world("kb", "a", ["0->1", "1->2"]),
        world("shk", "a", [plan("2->0", steps=(keep_last,)), "1->2"]),
    ]


def _endless(repeat: int) -> list[World]:
    a, b = _again("0:a", repeat), _again("0:b", repeat)
    return [
        world("e1", "ab", ["0:ab", a, b]),
        world("e1u", "2a", ["0:2a", a, a]),
        world("e1all", "ab", [_again("0:ab", repeat), a, b]),
        world("etri", "abc", [_again("0:ab", repeat), _again("0:bc", repeat), _again("0:ac", repeat)]),
        world("e2", "ab", ["0:a->1:ab", _again("1:a", repeat), _again("1:b", repeat)]),
        world("e2b", "ab", ["0:a->1:ab", _again("0:a->1:a", repeat), _again("1:b", repeat)]),
        world("e2opp", "ab", ["0:ab->1:a", _again("1:a->0:a", repeat), _again("0:b", repeat)]),
    ]


def _no_wait(repeat: int) -> list[World]:
    tries = [plan("0:a", wait=False, repeat=repeat), plan("0:b", wait=False, repeat=repeat)]
    return [
        world("t1", "ab", ["0:ab", *tries]),
        world("t2", "a", ["0->1", "1->0"], try_from=2),
        world("t2no", "ab", ["0:ab->1:a", "1:ab->0:a", plan("0:b->1:a", wait=False)]),
    ]


def _shrinking() -> list[World]:
    def keep(**kept: str) -> GiveBack:
        return GiveBack(tuple((node, vector(text)) for node, text in sorted(kept.items())))

    return [
        world("shr1", "ab", [plan("0:ab", steps=(keep(n0="a"),)), "0:b", "0:a"]),
        world(
            "shr2",
            "ab",
            [
                plan("0:ab->1:a", steps=(keep(n0="a", n1="a"),)),
                plan("0:b->1:ab", steps=(keep(n0="", n1="ab"),)),
            ],
        ),
        world("shr3", "a", [plan("0->1->2", steps=(keep(n0="a", n1="", n2="a"),)), "1->2"]),
        world("shr4", "a", [plan("0->1", steps=(keep(n0="a", n1=""),)), "1->0"]),
    ]


def _exchanging() -> list[World]:
    one = Swap((Place("n0", (vector("b"),)),), (("n0", vector("a")),))
    two = Swap((Place("n1", (vector("a"),)),), (("n0", vector("a")),))
    return [
        world("xch1", "ab", [plan("0:a", steps=(one,)), "0:b", "0:ab"]),
        world("xch2", "a", [plan("0:a", steps=(two,)), "0->1"]),
    ]


def _alternatives() -> list[World]:
    return [
        world("or1", "ab", ["0:a|b", "0:a|b", "0:ab"]),
        world("or2", "ab", ["0:a|b->1:a|b", "1:a|b->0:a|b"]),
        world("g2", "a", ["0:a or 1:a", "0->1"]),
        world("gg", "a", ["0:a or 1:a", "0:a or 1:a"]),
        world("g2m", "a", ["0->1 or 2", "1->0", "2"]),
        world("g3", "a", ["0:a or 1:a or 2:a", "0->1->2"]),
    ]


def _metered() -> list[World]:
    return [
        world("b1", "abc", ["0:ab", "0:ac", "0:a", "0:a"], meter=True),
        world("b2", "ab", ["0:ab", "0:ab", _again("0:a", 2), "0:b"], meter=True),
        world("b3", "ab", ["2:a->0:a", "0:a->1:ab", "1:a", _again("1:b", 2)], meter=True),
        world("b4", "abc", ["0:ab", "0:ac", "0:b", "0:c", _again("0:a", 2)], meter=True),
    ]


def _limited() -> list[World]:
    one = (("n0", "a", "amy", 1),)
    both = (*one, ("n1", "a", "amy", 1))
    amy, amy_back, amy_on = (plan(text, holder="amy") for text in ("0:a", "1:a->0:a", "0:a->1:a"))
    return [
        world("lim3", "2a", [amy, amy, "0:a", "0:a"], limits=one),
        world("lim2", "2a", [amy_on, amy_back], limits=both),
        world("lim4", "2a", [amy_on, amy_back, "0:a"], limits=both),
    ]


def worlds(repeat: int | None = None) -> dict[str, World]:
    """All named worlds; `repeat` is how often claims come that the specification lets come for ever."""
    again = REPEAT if repeat is None else repeat
    found = [*_one_node(), *_two_nodes(), *_three_nodes(), *_endless(again), *_no_wait(again), *_shrinking()]
    found += [*_exchanging(), *_alternatives(), *_metered(), *_limited()]
    return {made.name: made for made in found}


def named(name: str, *, repeat: int | None = None, passes: int = 1, passes_per_ahead: int = 0) -> World:
    """A world by its name, `@oldest` or `@reversed` after it. Raises BadWorld."""
    base, _, order = name.partition("@")
    known = worlds(repeat)
    if base not in known:
        raise BadWorld(f"no world {base!r}; see holdall lab explore --world list")
    if order not in {"", "oldest", "reversed"}:
        raise BadWorld(f"no order of stamps {order!r}; write {base}@oldest or {base}@reversed")
    made = msgspec.structs.replace(known[base], passes=passes, passes_per_ahead=passes_per_ahead)
    return stamped(made, order) if order else made


def stamped(made: World, order: str) -> World:
    """The same world with stamps that the claimants bring, the first claim `oldest` or, `reversed`, the youngest."""
    count = len(made.claims)
    clocks = range(1, count + 1) if order == "oldest" else range(count, 0, -1)
    claims = tuple(
        msgspec.structs.replace(claim, clock=clock) for claim, clock in zip(made.claims, clocks, strict=True)
    )
    return msgspec.structs.replace(made, name=f"{made.name}@{order}", claims=claims)
