"""Requests that are under way: what was asked, what came back, and what to do when the connection breaks."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

from holdall.client.tenure import Tenure
from holdall.model import frames
from holdall.model.errors import HoldallError
from holdall.model.why import Why

Outcome = TypeVar("Outcome")


class Call(Generic[Outcome]):
    """One request with its number, and the future of its outcome (never cancelled: an outcome always comes)."""

    def __init__(self, frame: frames.ToNode, number: int, *, repeatable: bool = True) -> None:
        self.frame = frame
        self.number = number
        self.repeatable = repeatable
        """Whether sending it twice does no more than once. If not, a break makes its outcome unknown."""
        self.sent_ms: int | None = None
        """When it was sent last; None: never."""
        self.answer_by_ms: int | None = None
        self.not_before_ms = 0
        """It is sent then at the earliest."""
        self.patient = False
        """Nobody waits for it, but it must come true: it is repeated until the node has answered, however long that takes."""
        self.future: Future[Outcome] = Future()
        self.future.set_running_or_notify_cancel()

    @property
    def done(self) -> bool:
        return self.future.done()

    def succeed(self, outcome: Outcome) -> None:
        if not self.future.done():
            self.future.set_result(outcome)

    def fail(self, problem: HoldallError) -> None:
        if not self.future.done():
            self.future.set_exception(problem)


class ClaimCall(Call[Tenure]):
    """A claim until it is granted or denied."""

    def __init__(self, frame: frames.Claim, number: int, *, wait_until_ms: int | None) -> None:
        super().__init__(frame, number)
        self.claim = frame
        self.wait_until_ms = wait_until_ms
        """When its wait is over by our clock; None: never. A claim that is repeated asks for the rest only."""
        self.base_ms: int | None = None
        """When that message was sent from which a grant would count: the claim, or a later renewal that was answered."""
        self.confirms = False
        """It was granted, but too long ago to be used without another answer."""
        self.printed = ""
        self.why: Why | None = None
        self.on_queued: Callable[[frames.Queued], None] | None = None
        self.abandoned = False
        """Nobody wants it any more: it is being cancelled, and a grant that comes all the same is given back."""
        self.queued_in_history = False
        """Whether the history says since when it is in this queue: anew after each restart of the node."""
        self.history = ""
        """Its id in the history."""


class ListingCall(Call[frames.Listing]):
    """A question whose answer may come in parts."""

    def __init__(self, frame: frames.Ask, number: int) -> None:
        super().__init__(frame, number)
        self.parts: list[frames.Listing] = []


class NegotiateCall(Call[frames.Negotiated]):
    """A question about locations."""


class LeaseCall(Call[frames.Granted]):
    """Extend, drop, exchange, or attach again: answered with the lease as it is then."""

    def __init__(
        self, frame: frames.ToNode, number: int, tenure: Tenure, *, repeatable: bool, attach: bool = False
    ) -> None:
        super().__init__(frame, number, repeatable=repeatable)
        self.tenure = tenure
        self.attach = attach


class ReleaseCall(Call[frames.Released]):
    """Release or cancel. `tenure` is None for the cancellation of a claim, which is `claim_number`."""

    def __init__(
        self, frame: frames.ToNode, number: int, *, tenure: Tenure | None = None, claim_number: int = 0
    ) -> None:
        super().__init__(frame, number)
        self.tenure = tenure
        self.claim_number = claim_number
        self.history_stamp = 0
