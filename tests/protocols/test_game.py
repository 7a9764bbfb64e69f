"""The game of tasks as conversations: single events and their exact effects (scenarios GM1 to GM8, PC11, PC12)."""

from typing import cast

import pytest
from protocols.token_room import Room, claim

from holdall.protocols import registry
from holdall.protocols.by_pool.claim import Phase
from holdall.protocols.by_pool.manager import Manager
from holdall.protocols.by_pool.messages import PlaceGone
from holdall.protocols.counting_book import Departed
from holdall.protocols.game.board import Sums
from holdall.protocols.game.claimant import Claimant
from holdall.protocols.game.messages import Advance, Form, GameEntry, Rules, Stage, View
from holdall.protocols.vocabulary import ClaimId, NotNow, Release, Terms
from holdall.world.from_world import of_world

A, B, C = claim("c1"), claim("c2"), claim("c3")
ONE = {"n0": {"a": 1}}
TWO = {"n0": {"a": 1}, "n1": {"a": 1}}
BOTH = pytest.mark.parametrize("protocol", ["game", "game-complete"])


def entries(room: Room, node: str = "n0") -> list[GameEntry]:
    manager = cast("Manager[GameEntry]", room.manager(node))
    return [manager.entries[key] for key in sorted(manager.entries)]


@pytest.mark.parametrize(
    ("prior", "ahead", "free", "wants", "kept", "printed", "first"),
    [
        (0, 0, 2, 1, True, True, True),
        (0, 0, 1, 2, True, False, False),
        (1, 1, 2, 1, True, True, True),
        (1, 1, 2, 2, False, False, False),
        (0, 2, 2, 1, True, True, False),
        (0, 0, 0, 1, True, False, False),
    ],
)
def test_gm1_guards_of_one_view(
    prior: int, ahead: int, free: int, wants: int, *, kept: bool, printed: bool, first: bool
) -> None:
    """Who keeps its place counts with the capacity (2), the paper with what is free."""
    sums = Sums(False, prior, ahead)
    assert sums.fits(wants, 2) is kept
    assert sums.fits(wants, free) is printed
    assert sums.first(wants, free) is first
    assert Sums(True, prior, ahead).fits(wants, 2) is False


@pytest.mark.parametrize(("protocol", "passed"), [("game", {}), ("game-complete", {"a": 1})])
def test_who_gets_units_before_an_earlier_ticket_is_counted(protocol: str, passed: dict[str, int]) -> None:
    """B wants a unit of both nodes and finds one free here; under the complete rule it is not set aside before its order."""
    room = Room(protocol, {"n0": {"a": 2}, "n1": {"a": 1}})
    room.claims(A, "n1")
    room.run()
    room.claims(B, "n0", "n1")
    room.deliver("Form", "n0")
    room.claims(C, "n0")
    room.run()
    assert room.granted() == [A, C]
    assert cast("Manager[GameEntry]", room.manager("n0")).overtakes == passed
    assert cast("Manager[GameEntry]", room.manager("n1")).overtakes == {}


@BOTH
@pytest.mark.parametrize("k", [1, 2, 3, 5, 8, 16])
def test_gm6_alone_one_round_trip_and_six_messages_a_pool(protocol: str, k: int) -> None:
    nodes = {f"n{number:02}": {"a": 1} for number in range(k)}
    room = Room(protocol, nodes)
    room.claims(A, *nodes)
    assert room.kinds() == ["Form"] * k
    for _ in range(k):
        room.deliver("Form")
    assert room.granted() == []
    for _ in range(k):
        room.deliver("View")
    assert room.granted() == [A]
    room.run()
    room.release_all()
    assert len(room.sent) == 6 * k
    assert [room.sent.count(kind) for kind in ("Form", "View", "End", "EndAck")] == [2 * k, 2 * k, k, k]


@BOTH
def test_gm3_a_withdrawal_that_overtakes_its_request_leaves_no_ghost(protocol: str) -> None:
    room = Room(protocol, TWO)
    room.claims(A, "n0", "n1")
    forms = [room.take("Form", node) for node in ("n0", "n1")]
    assert [letter[2].stage for letter in forms if isinstance(letter[2], Form)] == [Stage.TENTATIVE] * 2
    late = forms[0][2]
    assert isinstance(late, Form)
    room.claims(B, "n0", "n1")
    room.run()
    assert room.granted() == [B]
    for letter in forms:
        room.hand(letter)
    room.run()
    (mine,) = [entry for entry in entries(room) if entry.claim == A]
    assert (mine.round, mine.stage) >= (1, Stage.ADMITTED)
    room.hand(forms[0])
    assert [entry for entry in entries(room) if entry.claim == A] == [mine]
    room.release_all()
    assert room.granted() == [B, A]


@BOTH
def test_gm3_an_old_view_after_a_new_one_changes_nothing(protocol: str) -> None:
    room = Room(protocol, TWO)
    room.claims(A, "n0", "n1")
    room.deliver("Form", "n0")
    old = room.take("View")
    room.hand(old)
    before = room.hosts["c1"].parts["claimant"].key()
    room.hand(old)
    assert room.hosts["c1"].parts["claimant"].key() == before
    room.run()
    room.release_all()
    assert room.granted() == [A]


@BOTH
def test_gm4_an_entrant_waits_for_those_that_were_admitted_before_it(protocol: str) -> None:
    room = Room(protocol, ONE)
    room.claims(A, "n0")
    room.run()
    room.claims(B, "n0")
    room.run()
    assert {entry.claim: entry.stage >= Stage.ADMITTED for entry in entries(room)} == {A: True, B: True}
    room.claims(C, "n0")
    room.run()
    stages = {entry.claim: entry.stage for entry in entries(room)}
    assert stages[C] is Stage.REGISTERED
    room.release_all()
    assert room.granted() == [A, B, C]


@BOTH
def test_gm4_who_is_admitted_later_does_not_delay_an_entrant(protocol: str) -> None:
    """A holds the unit, B has registered while nobody was admitted; C is admitted, D registers: D waits for C, B does not."""
    room = Room(protocol, ONE, ("c1", "c2", "c3", "c4"))
    room.claims(A, "n0")
    room.run()
    room.claims(B, "n0")
    room.claims(C, "n0")
    room.deliver("Form")
    room.deliver("Form")
    room.deliver("View", "c3")
    room.deliver("Form")
    assert {entry.claim: entry.serial > 0 for entry in entries(room)} == {A: False, B: False, C: True}
    late = claim("c4")
    room.claims(late, "n0")
    room.run()
    stages = {entry.claim: entry.stage for entry in entries(room)}
    assert stages[B] >= Stage.ADMITTED
    assert stages[late] is Stage.REGISTERED
    room.release_all()
    assert sorted(room.granted()) == [A, B, C, late]


def silent_after(protocol: str, dies: ClaimId, order: str, events: int, *, lost: bool) -> Stage | str:
    """One dies after so many deliveries, and its leases end then: the others get in. Returns where it was.

    `order`: who claims one after another; at a point everything that is on its way arrives first.
    """
    room = Room(protocol, TWO)
    wants = {"A": (A, TWO), "B": (B, TWO), "C": (C, ["n1"])}
    for letter in order:
        if letter == ".":
            room.run()
        else:
            who, nodes = wants[letter]
            room.claims(who, *nodes)
    over: set[ClaimId] = set()

    def release(*keep: ClaimId) -> None:
        for who in room.granted():
            if who not in {*keep, *over}:
                over.add(who)
                room.say(Release(who))

    for _ in range(events):
        if not room.wire:
            release(dies)
        if room.wire:
            room.hand(room.wire.pop(0))
    record = cast("Claimant", room.hosts[dies.node].parts["claimant"]).claims[dies]
    room.down.add(dies.node)
    if lost:
        room.wire = [letter for letter in room.wire if letter[0].node != dies.node]
    room.run()
    for node in TWO:
        room.tell(node, "manager", Departed(dies), of_world(node))
    for _ in range(4):
        release(dies)
        room.run()
        room.fire("c1", "c2", "c3")
    assert {A, B, C} - {dies} <= set(room.granted())
    assert [entry for node in TWO for entry in entries(room, node)] == []
    return "inside" if record.phase is Phase.INSIDE else record.stage


@BOTH
def test_gm5_who_falls_silent_in_any_status_lets_all_others_finish_when_its_leases_are_over(
    protocol: str,
) -> None:
    """What it had sent arrives before its leases end, or is lost."""
    seen = {
        silent_after(protocol, dies, order, events, lost=lost)
        for dies, order in ((A, "BCA"), (A, "BC.A"), (B, "ABC"))
        for events in range(44)
        for lost in (False, True)
    }
    waiting = {Stage.TENTATIVE, Stage.REGISTERED, Stage.ADMITTED, Stage.REQUESTED}
    ordered: set[Stage] = {Stage.ORDERED} if protocol == "game-complete" else set()
    assert seen == {*waiting, *ordered, "inside"}


@BOTH
def test_gm5_what_has_a_place_and_is_over_lets_all_others_go_on(protocol: str) -> None:
    room = Room(protocol, ONE)
    for one in (A, B, C):
        room.claims(one, "n0")
        room.run()
    manager = room.manager("n0")
    assert len(manager.entries) == 3
    room.say(Release(B))
    room.release_all()
    assert room.granted() == [A, C]


@BOTH
def test_gm7_a_stream_of_fast_claims_does_not_pass_one_that_is_admitted(protocol: str) -> None:
    room = Room(protocol, ONE)
    room.claims(A, "n0")
    room.run()
    room.claims(B, "n0")
    room.run()
    for number in range(1, 4):
        room.claims(claim("c3", number), "n0")
        room.run()
    room.say(Release(A))
    room.run()
    assert room.granted() == [A, B]
    room.release_all()


@BOTH
@pytest.mark.parametrize("events", range(14))
def test_gm8_a_release_at_any_moment_leaves_nothing(protocol: str, events: int) -> None:
    room = Room(protocol, TWO)
    room.claims(B, "n0", "n1")
    room.claims(A, "n0", "n1")
    for _ in range(events):
        if room.wire:
            room.hand(room.wire.pop(0))
    room.say(Release(A))
    room.run()
    assert A not in {entry.claim for node in TWO for entry in entries(room, node)}
    room.release_all()


@BOTH
def test_a_claim_that_does_not_wait_is_the_fast_path_or_nothing(protocol: str) -> None:
    room = Room(protocol, TWO)
    room.claims(A, "n0")
    room.run()
    room.claims(B, "n0", "n1", wait=False)
    room.run()
    assert [message.claim for message in room.told if isinstance(message, NotNow)] == [B]
    assert entries(room, "n1") == []
    room.release_all()
    room.claims(C, "n0", "n1", wait=False)
    room.run()
    assert room.granted() == [A, C]
    room.release_all()


@BOTH
def test_pc11_a_lost_view_of_anothers_change_is_shown_again(protocol: str) -> None:
    room = Room(protocol, ONE)
    room.claims(A, "n0")
    room.run()
    room.claims(B, "n0")
    room.run()
    room.say(Release(A))
    room.deliver("End")
    lost = room.take("View", "c2")[2]
    assert isinstance(lost, View)
    # Restricted: its units are set aside with that. Complete: it may order now.
    assert lost.first == (protocol == "game-complete")
    assert bool(lost.units) == (protocol == "game")
    room.run()
    assert room.granted() == [A]
    room.fire("c2")
    assert room.granted() == [A, B]
    room.release_all()


@BOTH
def test_pc12_a_pool_that_forgets_a_decision_gives_its_units_to_nobody_before_its_quarantine_ends(
    protocol: str,
) -> None:
    room = Room(protocol, TWO)
    room.claims(A, "n0", "n1")
    for _ in range(2):
        room.deliver("Form")
    for _ in range(2):
        room.deliver("View")
    assert room.granted() == [A]
    room.restart("n0", "lost", epoch=2, quarantine_ms=1000)
    room.claims(B, "n0", epoch=2)
    room.deliver("Form", "n0")
    assert isinstance(room.take("PlaceGone")[2], PlaceGone)
    for _ in range(3):
        if "Form" in room.kinds():
            room.deliver("Form")
    assert room.granted() == [A]
    assert entries(room) == []


def test_a_claim_advances_past_lower_priorities_that_are_named_and_not_marked() -> None:
    room = Room("game-complete", {"n0": {"a": 1}, "n1": {"a": 1}, "n2": {"a": 1}})
    room.claims(C, "n1")
    room.run()
    manager = room.manager("n0")
    c2 = Form(B, 1, 0, 1, 0, Stage.TENTATIVE, 5, "a", 1, Terms())
    sender = room.hosts["c2"]._addresses["claimant"]
    # B holds a tentative mark, so neither is put before it; then it has only a request.
    room.tell("n0", "manager", c2, sender)
    c1 = Form(A, 1, 0, 1, 0, Stage.TENTATIVE, 1, "a", 1, Terms())
    mine = room.hosts["c1"]._addresses["claimant"]
    room.tell("n0", "manager", c1, mine)
    room.tell("n0", "manager", with_stage(c2, Stage.REQUESTED), sender)
    room.tell("n0", "manager", with_stage(c1, Stage.REQUESTED), mine)
    assert [entry.claim for entry in manager.line("a")] == [B, A]
    room.tell("n0", "manager", Advance(A, 1, 0, 1, (C,)), mine)
    assert [entry.claim for entry in manager.line("a")] == [B, A]
    room.tell("n0", "manager", Advance(A, 1, 0, 1, (B,)), mine)
    assert [entry.claim for entry in manager.line("a")] == [A, B]
    room.tell("n0", "manager", Advance(B, 1, 0, 1, (A,)), sender)
    assert [entry.claim for entry in manager.line("a")] == [A, B]


def with_stage(form: Form, stage: Stage) -> Form:
    return Form(
        form.claim, form.attempt, form.place, 1, 1, stage, form.number, form.pool, form.units, form.terms
    )


@pytest.mark.parametrize(
    ("rules", "messages", "rounds"),
    [
        (Rules(claims=False, at_once=False, keeps_place=False), 12, 3),
        (Rules(complete=True, claims=False, at_once=False, keeps_place=False), 14, 4),
        (Rules(claims=False), 8, 2),
        (Rules(complete=True, claims=False), 10, 3),
        (Rules(complete=True), 6, 1),
    ],
)
@pytest.mark.parametrize("k", [1, 2, 7, 16])
def test_gm6_alone_without_parts_of_the_fast_path(
    rules: Rules, messages: int, rounds: int, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the paper has it 12 (restricted) and 14 (complete) messages a pool, 3 and 4 round trips."""
    monkeypatch.setitem(registry.PROTOCOLS, "played", registry.game_played("played", rules))
    room = Room("played", {f"n{number:02}": {"a": 1} for number in range(k)})
    room.claims(A, *(f"n{number:02}" for number in range(k)))
    trips = 0
    while not room.granted():
        trips += 1
        for _ in range(2):
            for letter in tuple(room.wire):
                room.wire.remove(letter)
                room.hand(letter)
    assert trips == rounds
    room.run()
    room.release_all()
    assert len(room.sent) == messages * k
