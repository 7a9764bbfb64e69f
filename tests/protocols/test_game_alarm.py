"""The alarm-clock of the complete game, its longer and longer waits, and advancing forms: one event, its effects (G16, G17)."""

from collections.abc import Sequence

from holdall.machine.contract import (
    Address,
    CancelTimer,
    Effect,
    Message,
    Received,
    Send,
    SetTimer,
    TimerFired,
)
from holdall.protocols.game.claimant import FAILURES_MAX, Claimant
from holdall.protocols.game.messages import Advance, Form, Rules, Stage, View
from holdall.protocols.vocabulary import Acquire, ClaimId, Granted, UnitGrant, Visit

GAMMA = 6000
A, B = ClaimId("c1", 1, 1), ClaimId("c2", 1, 1)
ALARM = f"alarm/{A}"
POOLS = ("n0", "n1")


class Player:
    """A claimant with one claim over two pools; what is sent stands in `out` until the next event."""

    def __init__(self) -> None:
        rules = Rules(complete=True)
        self.machine = Claimant("c1", Address("c1", "agent"), rules=rules, alarm_ms=GAMMA)
        need = tuple(Visit(node, ((("a", 1),),), 1) for node in POOLS)
        self.out: Sequence[Effect] = ()
        self.hear(Acquire(A, need), Address("c1", "agent"))

    def hear(self, message: Message, sender: Address) -> None:
        self.out = self.machine.handle(Received(sender, message))

    def see(
        self, place: int, *, n: int = 1, fits: bool = True, first: bool = False, has: bool = False
    ) -> None:
        """A view of a place, in answer to the newest form."""
        record = self.machine.claims[A]
        node = POOLS[place]
        view = View(
            A,
            record.attempt,
            place,
            1,
            record.round,
            record.stage,
            n,
            fits=fits,
            first=first,
            units=(UnitGrant(node, "a", "", 0),) if has else (),
            blockers=() if has or first else (B,),
        )
        self.hear(view, Address(node, "manager"))

    def see_both(self, *, first: bool = False) -> None:
        for place in (0, 1):
            self.see(place, first=first)

    def ring(self) -> None:
        self.out = self.machine.handle(TimerFired(ALARM))

    def stages(self) -> set[tuple[int, Stage]]:
        """(round, stage) of the forms just sent."""
        forms = [one.message for one in self.out if isinstance(one, Send)]
        return {(form.round, form.stage) for form in forms if isinstance(form, Form)}

    def advances(self) -> list[tuple[str, Advance]]:
        """Advancing forms just sent, and where to."""
        sends = [one for one in self.out if isinstance(one, Send)]
        return [(one.to.node, one.message) for one in sends if isinstance(one.message, Advance)]

    def alarm(self) -> int:
        """The time that the alarm was just set to; 0: it was not, -1: it was taken away."""
        for one in self.out:
            if isinstance(one, SetTimer) and one.timer == ALARM:
                return one.after_ms
            if isinstance(one, CancelTimer) and one.timer == ALARM:
                return -1
        return 0

    def requested(self) -> None:
        """Tentative requests have failed, requests are out."""
        self.see_both()
        assert self.stages() == {(1, Stage.REQUESTED)}


def test_the_alarm_is_set_when_all_requests_are_seen_and_lower_priorities_are_ahead() -> None:
    player = Player()
    player.requested()
    player.see(0)
    assert player.alarm() == 0
    player.see(1, first=True)
    assert player.alarm() == GAMMA


def test_the_alarm_is_not_set_for_who_can_order() -> None:
    player = Player()
    player.requested()
    player.see_both(first=True)
    assert player.alarm() == 0
    assert player.stages() == {(1, Stage.ORDERED)}


def test_who_rings_asks_to_pass_only_where_it_is_not_within_the_free_units() -> None:
    player = Player()
    player.requested()
    player.see(0, first=True)
    player.see(1)
    player.ring()
    assert player.advances() == [("n1", Advance(A, 1, 1, 1, (B,)))]
    assert player.alarm() == GAMMA


def test_an_alarm_that_rings_too_late_does_nothing() -> None:
    player = Player()
    player.requested()
    player.see_both()
    player.see(1, n=2, fits=False)
    assert player.alarm() == -1
    assert player.stages() == {(2, Stage.ADMITTED)}
    player.ring()
    assert player.out == []


def test_g16_gamma_doubles_with_every_round_that_ends_in_a_withdrawal_after_an_advance() -> None:
    player = Player()
    player.requested()
    waits: list[int] = []
    for _ in range(FAILURES_MAX + 2):
        player.see_both()
        waits.append(player.alarm())
        player.ring()
        player.see(0, n=2, fits=False)
        player.see_both()
    assert waits == [GAMMA << min(done, FAILURES_MAX) for done in range(FAILURES_MAX + 2)]


def test_g16_a_withdrawal_without_an_advance_leaves_gamma_as_it_is() -> None:
    player = Player()
    player.requested()
    for _ in range(3):
        player.see_both()
        assert player.alarm() == GAMMA
        player.see(0, n=2, fits=False)
        player.see_both()


def test_g16_success_sets_gamma_back() -> None:
    player = Player()
    player.requested()
    player.see_both()
    player.ring()
    player.see(0, n=2, fits=False)
    player.see_both()
    player.see_both(first=True)
    assert player.machine.claims[A].failures == 1
    player.see(0, has=True, first=True)
    player.see(1, has=True, first=True)
    assert [one.message for one in player.out if isinstance(one, Send) and isinstance(one.message, Granted)]
    assert player.machine.claims[A].failures == 0


def test_g17_who_has_ordered_and_was_passed_advances_from_there() -> None:
    """A pool of several units: somebody came before its request, p2 still holds and p4 does not any more."""
    player = Player()
    player.requested()
    player.see_both(first=True)
    assert player.stages() == {(1, Stage.ORDERED)}
    player.see(0, has=True, first=True)
    player.see(1)
    assert player.alarm() == GAMMA
    player.ring()
    assert player.advances() == [("n1", Advance(A, 1, 1, 1, (B,)))]
    player.see(1, n=2, has=True, first=True)
    assert [one.message for one in player.out if isinstance(one, Send) and isinstance(one.message, Granted)]


def test_the_restricted_game_has_no_alarm() -> None:
    player = Player()
    player.machine.rules = Rules()
    player.requested()
    player.see_both()
    assert player.alarm() == 0
