"""The resource manager of the game of tasks, section 3 as printed, wrong on purpose. Lab only."""

from typing import cast

import msgspec

from holdall.machine.contract import Address, Effect, ProtocolViolation, Received, Send
from holdall.protocols.literal.game_messages import (
    TASK,
    Admission,
    Advance,
    Ask,
    Asked,
    Form,
    Order,
    Registration,
    Releasing,
    ToManager,
    View,
    Winning,
    Withdrawal,
)
from holdall.protocols.literal.game_rules import GameRules
from holdall.protocols.literal.stateful import Stateful
from holdall.protocols.vocabulary import ClaimId


class PoolState(msgspec.Struct, frozen=True):
    """A pool as its manager knows it."""

    view: View = View()
    newest: tuple[tuple[ClaimId, int], ...] = ()
    """Task -> number of its newest form (repair "numbered forms")."""
    wrong: str = ""
    """What has happened here that must not, as `property: text`."""


class GameManager(Stateful[PoolState]):
    """The manager of one pool: applies a form and broadcasts."""

    def __init__(self, rules: GameRules, units: int, present: tuple[ClaimId, ...] = ()) -> None:
        """`present`: tasks that are in the competition from the start."""
        self.rules = rules
        self.units = units
        self.state = PoolState(View(registered=present, admitted=present))

    def receive(self, event: Received, out: list[Effect]) -> None:
        """One form, and the broadcast that follows each."""
        form = cast("ToManager", event.message)
        if self.rules.numbered_forms and not self._is_new(form):
            return
        before = self.state.view
        view = self._applied(before, form)
        if self.rules.changes_only and view == before:
            return
        if self.rules.numbered_views:
            view = msgspec.structs.replace(view, version=before.version + 1)
        self.state = msgspec.structs.replace(self.state, view=view)
        told = {*view.registered, form.claim} if isinstance(form, Releasing) else view.registered
        out += [Send(Address(claim.node, TASK), view) for claim in sorted(told)]

    def _is_new(self, form: Form) -> bool:
        newest = dict(self.state.newest)
        if form.number <= newest.get(form.claim, 0):
            return False
        newest[form.claim] = form.number
        self.state = msgspec.structs.replace(self.state, newest=tuple(sorted(newest.items())))
        return True

    def _applied(self, view: View, form: Form) -> View:
        claim = form.claim
        match form:
            case Registration():
                return msgspec.structs.replace(view, registered=_with(view.registered, claim))
            case Admission():
                return msgspec.structs.replace(view, admitted=_with(view.admitted, claim))
            case Ask(_, ticket, attempt):
                if any(asked.claim == claim and asked.attempt == attempt for asked in view.requests):
                    return view
                return msgspec.structs.replace(view, requests=(*view.requests, Asked(claim, ticket, attempt)))
            case Order(_, _, attempt):
                # A mark without its request is inconsistent with the paper's own invariant; it is printed so.
                if self.rules.orders_need_requests and not self._asks(view, claim, attempt):
                    return view
                return msgspec.structs.replace(view, ordered=_with(view.ordered, claim))
            case Advance(_, _, attempt):
                return _advanced(view, claim, attempt)
            case Withdrawal(_, _, attempt):
                left = tuple(
                    asked
                    for asked in view.requests
                    if asked.claim != claim or (self.rules.attempts and asked.attempt > attempt)
                )
                return msgspec.structs.replace(view, requests=left, ordered=_without(view.ordered, claim))
            case Winning():
                return self._won(view, claim)
            case Releasing():
                return self._released(view, claim)
            case _:
                raise ProtocolViolation(f"{type(form).__name__} is no form")

    def _asks(self, view: View, claim: ClaimId, attempt: int) -> bool:
        return any(
            asked.claim == claim and (not self.rules.attempts or asked.attempt == attempt)
            for asked in view.requests
        )

    def _won(self, view: View, claim: ClaimId) -> View:
        """Book a resource; without a free one the form "has no effect", and the task waits for ever."""
        if len(view.users) >= self.units:
            text = f"no effect: the winning form of {claim} finds no free resource"
            self.state = msgspec.structs.replace(self.state, wrong=text)
            return view
        view = msgspec.structs.replace(view, users=tuple(sorted((*view.users, claim))))
        return _cleared(view, claim) if self.rules.clears == "booked" else view

    def _released(self, view: View, claim: ClaimId) -> View:
        if claim not in view.users:
            return view
        view = msgspec.structs.replace(
            view, registered=_without(view.registered, claim), users=_without(view.users, claim)
        )
        return view if self.rules.clears == "never" else _cleared(view, claim)


def _cleared(view: View, claim: ClaimId) -> View:
    """Without the admission, request and order form that the task no longer needs."""
    return msgspec.structs.replace(
        view,
        admitted=_without(view.admitted, claim),
        requests=tuple(asked for asked in view.requests if asked.claim != claim),
        ordered=_without(view.ordered, claim),
    )


def _advanced(view: View, claim: ClaimId, attempt: int) -> View:
    """The task's request before its predecessor, unless that one is ordered."""
    queue = list(view.requests)
    at = next((n for n, asked in enumerate(queue) if (asked.claim, asked.attempt) == (claim, attempt)), 0)
    if at == 0 or queue[at - 1].claim in view.ordered:
        return view
    queue[at - 1], queue[at] = queue[at], queue[at - 1]
    return msgspec.structs.replace(view, requests=tuple(queue))


def _with(claims: tuple[ClaimId, ...], claim: ClaimId) -> tuple[ClaimId, ...]:
    return tuple(sorted({*claims, claim}))


def _without(claims: tuple[ClaimId, ...], claim: ClaimId) -> tuple[ClaimId, ...]:
    return tuple(one for one in claims if one != claim)
