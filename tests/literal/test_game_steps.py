"""One form to a resource manager, one view to a task of the printed game, and the exact effects."""

import pytest

from holdall.machine.contract import Address, ProtocolViolation, Received, Send
from holdall.protocols.literal.game_manager import GameManager
from holdall.protocols.literal.game_messages import (
    Admission,
    Advance,
    Ask,
    Asked,
    Form,
    Order,
    Registration,
    Releasing,
    View,
    Winning,
    Withdrawal,
)
from holdall.protocols.literal.game_rules import GameRules
from holdall.protocols.literal.game_task import GameTask
from holdall.protocols.vocabulary import Acquire, ClaimId, Granted, Release, UnitGrant, Visit

A, B = ClaimId("a", 1, 1), ClaimId("b", 1, 2)
AGENT = Address("b", "agent")


def tell(manager: GameManager, *forms: Form) -> dict[str, View]:
    """What the last form makes the manager broadcast: host -> view."""
    told: dict[str, View] = {}
    for form in forms:
        effects = manager.handle(Received(Address(form.claim.node, "claimant"), form))
        told = {
            effect.to.node: effect.message
            for effect in effects
            if isinstance(effect, Send) and isinstance(effect.message, View)
        }
    return told


def test_every_form_is_broadcast_to_all_registered_tasks() -> None:
    manager = GameManager(GameRules(), 1)
    assert tell(manager, Registration(A, 1)) == {"a": View(registered=(A,))}
    both = View(registered=(A, B))
    assert tell(manager, Registration(B, 2)) == {"a": both, "b": both}
    assert tell(manager, Admission(A, 1))["b"].admitted == (A,)
    assert tell(manager, Ask(B, 2), Ask(A, 1))["a"].requests == (Asked(B, 2), Asked(A, 1))


def test_an_advancing_form_passes_one_request_without_an_order_form() -> None:
    manager = GameManager(GameRules(), 1, (A, B))
    tell(manager, Ask(B, 2), Ask(A, 1))
    assert tell(manager, Advance(A, 1))["a"].requests == (Asked(A, 1), Asked(B, 2))
    tell(manager, Order(A, 1))
    assert tell(manager, Advance(B, 2))["a"].requests == (Asked(A, 1), Asked(B, 2))


def test_a_withdrawal_takes_request_and_order_form_and_a_late_order_form_stays() -> None:
    for needed, left in ((False, (A,)), (True, ())):
        manager = GameManager(GameRules(orders_need_requests=needed), 1, (A,))
        assert tell(manager, Ask(A, 1), Order(A, 1), Withdrawal(A, 1))["a"].ordered == ()
        assert tell(manager, Order(A, 1))["a"].ordered == left


def test_a_winning_form_without_a_free_resource_has_no_effect() -> None:
    manager = GameManager(GameRules(), 1, (A, B))
    assert tell(manager, Winning(A, 1))["b"].users == (A,)
    assert tell(manager, Winning(B, 2))["b"].users == (A,)
    assert manager.state.wrong.startswith("no effect")


@pytest.mark.parametrize(
    ("clears", "after_winning", "after_releasing"),
    [("never", (A,), (A,)), ("released", (A,), ()), ("booked", (), ())],
)
def test_g11_when_the_forms_of_a_winner_go(
    clears: str, after_winning: tuple[ClaimId, ...], after_releasing: tuple[ClaimId, ...]
) -> None:
    manager = GameManager(GameRules(clears=clears), 1, (A, B))  # type: ignore[arg-type]
    for form, left in ((Winning(A, 1), after_winning), (Releasing(A, 1), after_releasing)):
        view = tell(manager, Ask(A, 1), form)["b"] if isinstance(form, Winning) else tell(manager, form)["b"]
        assert tuple(asked.claim for asked in view.requests) == left
        assert (A in view.admitted) == bool(left)


def test_numbered_forms_ignore_the_older_one() -> None:
    manager = GameManager(GameRules(numbered_forms=True), 1, (A,))
    assert tell(manager, Withdrawal(A, 1, number=2)) != {}
    assert tell(manager, Ask(A, 1, number=1)) == {}


def task_of(rules: GameRules) -> tuple[GameTask, list[Form]]:
    task = GameTask(AGENT, rules, {"n": 1}, present=True)
    return task, sent(task, Acquire(B, (Visit("n", ((("x", 1),),)),)))


def sent(task: GameTask, message: object) -> list[Form]:
    effects = task.handle(Received(Address("n", "manager"), message))  # type: ignore[arg-type]
    return [
        effect.message for effect in effects if isinstance(effect, Send) and isinstance(effect.message, Form)
    ]


def seen(*requests: Asked, ordered: tuple[ClaimId, ...] = (), users: tuple[ClaimId, ...] = ()) -> View:
    return View((A, B), (A, B), requests, ordered, users)


def test_b6_as_printed_a_task_wins_behind_a_lower_priority_and_not_with_the_whole_prefix() -> None:
    low = Asked(ClaimId("z", 1, 9), 9)
    printed, first = task_of(GameRules())
    assert first == [Ask(B, 2)]
    assert sent(printed, seen(low, Asked(B, 2))) == [Order(B, 2), Winning(B, 2)]
    repaired, _ = task_of(GameRules(prefix=True, marks_seen=True))
    assert sent(repaired, seen(low, Asked(B, 2))) == []
    assert sent(repaired, seen(Asked(B, 2))) == [Order(B, 2)]
    assert sent(repaired, seen(Asked(B, 2), ordered=(B,))) == [Winning(B, 2)]


def test_g12_a_higher_priority_ahead_is_no_reason_to_withdraw_as_printed() -> None:
    ahead = seen(Asked(A, 1), Asked(B, 2))
    assert sent(task_of(GameRules())[0], ahead) == []
    assert sent(task_of(GameRules(withdraws=True))[0], ahead) == [Withdrawal(B, 2)]


def test_a_winner_accesses_when_it_is_among_the_users_and_releases() -> None:
    task, _ = task_of(GameRules())
    sent(task, seen(Asked(B, 2)))
    effects = task.handle(Received(Address("n", "manager"), seen(Asked(B, 2), users=(B,))))
    assert effects == [Send(AGENT, Granted(B, 1, (UnitGrant("n", "x", "", 0),)))]
    assert sent(task, Release(B)) == [Releasing(B, 2)]


def test_one_task_at_a_time() -> None:
    task, _ = task_of(GameRules())
    with pytest.raises(ProtocolViolation):
        sent(task, Acquire(ClaimId("b", 1, 3), ()))
