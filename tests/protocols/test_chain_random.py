"""Random small systems, every message in random order: always safe, everybody served, nothing left."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from protocols.conversation import Net, claim_id

from holdall.protocols.chain import properties
from holdall.protocols.chain.claims import Inside
from holdall.protocols.chain.rows import Limit
from holdall.protocols.chain.settling import Settings
from holdall.protocols.vocabulary import ClaimId, Stamp, Terms, Vector, Visit

NODES = ("n0", "n1", "n2")
POOLS = ("a", "b")


@st.composite
def vectors(draw: st.DrawFn) -> Vector:
    pools = draw(st.sets(st.sampled_from(POOLS), min_size=1))
    return tuple((pool, draw(st.sampled_from((1, 1, 2, -1)))) for pool in sorted(pools))


@st.composite
def needs(draw: st.DrawFn) -> tuple[Visit, ...]:
    nodes = draw(st.lists(st.sampled_from(NODES), min_size=1, max_size=3, unique=True))
    return tuple(
        Visit(node, tuple(draw(st.lists(vectors(), min_size=1, max_size=2, unique=True))), 1)
        for node in nodes
    )


def is_inside(net: Net, claim: ClaimId) -> bool:
    return isinstance(net.claimant(claim.node).claims.get(claim), Inside)


def check(net: Net) -> None:
    managers = [net.manager(node) for node in NODES]
    claimants = [net.claimant(node) for node in net.hosts]
    assert properties.all_wrong(managers, claimants) == []
    for manager in managers:
        assert properties.miscounted(manager) == []


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    wanted=st.lists(needs(), min_size=2, max_size=5),
    passes=st.integers(0, 2),
    per_ahead=st.integers(0, 1),
    limited=st.booleans(),
    try_from=st.sampled_from((2, 9)),
    data=st.data(),
)
def test_in_any_order_of_messages_the_system_is_safe_and_everybody_is_served(
    wanted: list[tuple[Visit, ...]],
    passes: int,
    per_ahead: int,
    limited: bool,
    try_from: int,
    data: Any,
) -> None:
    claims = [claim_id(f"c{place}") for place in range(len(wanted))]
    limits = (Limit("a", 2),) if limited else ()
    tuned = Settings(passes=passes, passes_per_ahead=per_ahead, limits=limits)
    capacities = {node: {"a": 2, "b": 2} for node in NODES}
    net = Net(capacities, tuple(f"c{place}" for place in range(len(wanted))), settings=tuned)
    todo = list(range(len(wanted)))
    inside: list[int] = []
    for place in todo:
        net.claimant(f"c{place}").try_from = try_from
    for _ in range(2_000):
        inside = [place for place, claim in enumerate(claims) if is_inside(net, claim)]
        moves = len(todo) + len(inside) + len(net.wire)
        if not moves:
            break
        move: int = data.draw(st.integers(0, moves - 1))
        if move < len(todo):
            place = todo.pop(move)
            stamp = Stamp(data.draw(st.integers(1, 5)), "x", claims[place], 1)
            kept = data.draw(st.booleans())
            net.acquire(
                claims[place],
                wanted[place],
                stamp=stamp if kept else None,
                terms=Terms(holder=f"h{place % 2}"),
            )
        elif move < len(todo) + len(inside):
            net.release(claims[inside[move - len(todo)]])
        else:
            net.arrive(move - len(todo) - len(inside))
        check(net)
    assert not net.wire
    for place, claim in enumerate(claims):
        assert net.is_granted(claim), f"{claim} was not served: {wanted[place]}"
        assert not net.claimant(f"c{place}").claims
    for node in NODES:
        assert net.manager(node).rows == {}
        assert net.manager(node).mem == {}
