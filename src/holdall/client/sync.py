"""The blocking face, `holdall.sync`: the same names as the asyncio one, over the same link."""

import contextlib
import os
import threading
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self

from holdall.client import interrupt, scope
from holdall.client.blocking import granted, result_of
from holdall.client.link import Link
from holdall.client.opening import open_link
from holdall.client.tenure import Tenure
from holdall.client.units import Unit, by_pool, drop_names, needs_without
from holdall.client.wishes import Duration, NeedLike, OnLoss, build_claim, claim_anew, default_agent
from holdall.model import frames
from holdall.model.durations import finite_duration, parse_duration
from holdall.model.errors import LeaseLost, NotGranted, Unreachable
from holdall.model.spec import parse_need
from holdall.model.why import Why

if TYPE_CHECKING:
    from holdall.client.location_sync import Location


def connect(
    url: str | None = None, *, agent: str | None = None, history: str | os.PathLike[str] | None = None
) -> "Hub":
    """As `holdall.connect`, for code that blocks: `with holdall.sync.connect() as hub, hub.lease("gpu:2") as lease`."""
    return Hub(url, agent=default_agent() if agent is None else agent, history=history)


class Hub:
    """A session with a node; may be used by several threads."""

    def __init__(self, url: str | None, *, agent: str, history: str | os.PathLike[str] | None) -> None:
        self._url = url
        self._agent = agent
        self._history = history
        self._opened: Link | None = None
        self.not_asked: tuple[frames.NotAsked, ...] = ()
        """Nodes that have no part in the latest answer to a question, each with why."""

    def open(self) -> Self:
        """Connect. Raises Unreachable when no node answers, BadSpec for a bad URL."""
        self._opened = open_link(self._url, agent=self._agent, history=self._history)
        return self

    def close(self) -> None:
        """Give every lease of this hub back, end its waiting claims, disconnect. Idempotent."""
        link, self._opened = self._opened, None
        if link is not None:
            link.close()

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ------------------------------------------------------------ leases

    def lease(
        self,
        *needs: NeedLike,
        wait: Duration | None = None,
        ttl: Duration | None = None,
        hold_for: Duration | None = None,
        reason: str = "",
        on_loss: OnLoss = "cancel",
        independent: bool = False,
        allow_future: bool = False,
        on_wait: Callable[[Why], None] | None = None,
    ) -> "Lease":
        """All needs or none; returns when they are granted, and raises as the asyncio twin does.

        On loss LeaseLost is raised in the thread of the `with` body at its next step of Python code
        (`on_loss="cancel"`), or only `lease.lost` is set (`"event"`), or nothing is done (`"ignore"`).
        `on_wait` is called, in this thread, when the claim has to wait, and when that has changed; what it raises ends the
        claim.
        """
        claim = build_claim(
            needs,
            welcome=self._link.welcome,
            wait=wait,
            now=False,
            ttl=ttl,
            hold_for=hold_for,
            reason=reason,
            independent=independent,
            allow_future=allow_future,
        )
        return self._acquire(claim, on_loss, on_wait)

    def try_lease(
        self,
        *needs: NeedLike,
        ttl: Duration | None = None,
        hold_for: Duration | None = None,
        reason: str = "",
        on_loss: OnLoss = "cancel",
        independent: bool = False,
    ) -> "Lease | None":
        """All needs if they are free now and nobody who waits is delayed by it; else None."""
        claim = build_claim(
            needs,
            welcome=self._link.welcome,
            wait=None,
            now=True,
            ttl=ttl,
            hold_for=hold_for,
            reason=reason,
            independent=independent,
            allow_future=False,
        )
        try:
            return self._acquire(claim, on_loss)
        except NotGranted:
            return None

    def _acquire(
        self, claim: frames.Claim, on_loss: OnLoss, on_wait: Callable[[Why], None] | None = None
    ) -> "Lease":
        return Lease(self._link, granted(self._link, claim, on_wait), on_loss)

    # ------------------------------------------------------------ locations

    def location(self, name: str) -> "Location":
        """Leases on negotiated terms, of the hosts of this location."""
        from holdall.client.location_sync import Location

        return Location(self._link, name)

    # ------------------------------------------------------------ questions

    def pools(self) -> tuple[frames.PoolRow, ...]:
        """All pools of the system, with their units."""
        return self._ask("pools").pools

    def who(self) -> tuple[frames.LeaseView, ...]:
        """All leases of the system."""
        return self._ask("who").leases

    def queue(self) -> tuple[Why, ...]:
        """All waiting claims, each with why it waits."""
        return self._ask("queue").waits

    def why(self, claim: str) -> Why | None:
        """Why one claim waits (its printed id); None when it does not wait any more."""
        waits = self._ask("why", claim).waits
        return waits[0] if waits else None

    def log(self, since: Duration | None = None) -> tuple[frames.LogRow, ...]:
        """What happened on all nodes, oldest first; `since`: only the last so much time."""
        since_ms = None if since is None else parse_duration(since, what="since")
        return self._ask("log", since_ms=since_ms).log

    def _ask(self, what: Any, arg: str = "", since_ms: int | None = None) -> frames.Listing:
        listing = result_of(self._link.ask(what, arg, since_ms).future)
        self.not_asked = listing.not_asked
        return listing

    @property
    def node(self) -> str:
        """Name of the node that this hub talks to."""
        return self._link.welcome.node

    @property
    def _link(self) -> Link:
        if self._opened is None:
            raise Unreachable("this hub is not open. Use: with holdall.sync.connect() as hub")
        return self._opened

    def __reduce__(self) -> NoReturn:
        raise TypeError("a hub is not pickled: open one where it is needed, with holdall.sync.connect()")


class Lease:
    """What `hub.lease(…)` gives, granted already. Not pickled: its `key` is what one passes on."""

    def __init__(self, link: Link, tenure: Tenure, on_loss: OnLoss) -> None:
        self._link = link
        self._tenure = tenure
        self._on_loss: OnLoss = on_loss
        self._event = threading.Event()
        self._body: int | None = None
        self._struck: type[LeaseLost] | None = None
        tenure.listen(self._hear_loss)

    @property
    def key(self) -> str:
        """The secret that stands for this lease, e.g. as HOLDALL_LEASE of a child process."""
        return self._tenure.key

    @property
    def id(self) -> str:
        """What people see: `7K4M-Q2`."""
        return self._tenure.name

    @property
    def units(self) -> Mapping[str, list[Unit]]:
        """Units by pool name. Raises LeaseLost when the lease is over, NotHolder when it was given back."""
        self.check()
        return by_pool(self._tenure.lease.units)

    @property
    def is_view(self) -> bool:
        """True: a lease around it covers it, so it lives as that one does, and giving it back does nothing."""
        return self._tenure.view

    @property
    def info(self) -> frames.LeaseView:
        """As `holdall show` has it; can be read after the end, too."""
        return self._tenure.lease

    @property
    def seconds_left(self) -> float:
        """How long the lease lives if no renewal comes any more."""
        return self._tenure.left_ms() / 1000

    @property
    def lost(self) -> threading.Event:
        """Set when the lease is lost."""
        self._tenure.expire_if_due()
        return self._event

    @property
    def loss(self) -> LeaseLost | None:
        """Why it was lost; None while it was not."""
        return self._tenure.lost

    def check(self) -> None:
        """Raise LeaseLost when the lease is over by its own deadline or by the node's word.

        Call it before each step that must not happen without the lease; it costs one look at a clock.
        """
        self._tenure.check()

    def extend(self, hold_for: Duration) -> None:
        """A later hard end (`for`), counted from now, at most the pool's `max_for`. Raises Refused beyond that."""
        for_ms = finite_duration(hold_for, what="for")
        self._change(lambda n: frames.Extend(n=n, key=self.key, for_ms=for_ms), repeatable=True)

    def drop(self, *units: Unit | str) -> None:
        """Give a part back early: Units, `pool/unit` or a pool's name (all its units). Stop using them before."""
        names = drop_names(self._tenure.lease.units, units)
        self._change(lambda n: frames.Drop(n=n, key=self.key, units=names), repeatable=True)

    def exchange(
        self,
        *,
        add: NeedLike | tuple[NeedLike, ...],
        drop: Unit | str | tuple[Unit | str, ...],
        release_first: bool = False,
        wait: Duration | None = None,
    ) -> None:
        """Swap in one step if that is possible now. Raises NotGranted when it is not: nothing has changed then.

        With `release_first` everything is given back in that case, and what is wanted is waited for like a new claim: this
        object goes on as another lease. If that is not granted within `wait`, nothing is held any more.
        """
        needs = tuple(parse_need(need) for need in (add if isinstance(add, tuple) else (add,)))
        names = drop_names(self._tenure.lease.units, drop if isinstance(drop, tuple) else (drop,))
        try:
            self._change(
                lambda n: frames.Exchange(n=n, key=self.key, add=needs, drop=names), repeatable=False
            )
        except NotGranted:
            if not release_first:
                raise
        else:
            return
        before = self._tenure.lease
        self.release()
        whole = (*needs_without(before.units, names), *needs)
        self._become(granted(self._link, claim_anew(before, whole, welcome=self._link.welcome, wait=wait)))

    def _become(self, tenure: Tenure) -> None:
        self._tenure = tenure
        if self._body is not None:
            scope.enter(tenure)
        tenure.listen(self._hear_loss)

    def release(self, *, wait: bool = False) -> frames.Released:
        """Give it back; again does no harm. Says what was done, and by when the units are free at the latest."""
        call = self._link.release(self._tenure, wait=wait)
        self._tenure.forget(self._hear_loss)
        scope.leave(self._tenure)
        return result_of(call.future)

    @contextlib.contextmanager
    def stretch(self) -> Generator[Self]:
        """A piece of work under the lease, as the `with` body, but nothing is given back at its end.

        For code that uses one lease in several places. Stretches of one lease do not lie in each other.
        """
        self._enter_body()
        try:
            yield self
        except BaseException as problem:
            self._end_stretch(type(problem))
            raise
        self._end_stretch(None)

    def _end_stretch(self, kind: type[BaseException] | None) -> None:
        self._leave_body_for_good(kind)
        scope.leave(self._tenure)
        self._raise_loss(kind, self._tenure.lost)

    def _enter_body(self) -> None:
        self.check()
        scope.enter(self._tenure)
        with self._link.lock:
            self._body = threading.get_ident()

    def __enter__(self) -> Self:
        self._enter_body()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave_body_for_good(kind)
        loss = self._tenure.lost
        released: Future[frames.Released] = self._link.release(self._tenure).future
        self._tenure.forget(self._hear_loss)
        scope.leave(self._tenure)
        result_of(released)
        self._raise_loss(kind, loss)

    def _raise_loss(self, kind: type[BaseException] | None, loss: LeaseLost | None) -> None:
        if loss is None or self._on_loss != "cancel":
            return
        if kind is None or (self._struck is not None and kind is self._struck):
            raise loss from None

    def _leave_body_for_good(self, kind: type[BaseException] | None) -> None:
        try:
            self._leave_body(kind)
        except LeaseLost:
            self._leave_body(kind)  # struck in this very moment

    def _leave_body(self, kind: type[BaseException] | None) -> None:
        with self._link.lock:
            thread, self._body = self._body, None
            if thread is not None and self._struck is not None and kind is not self._struck:
                interrupt.take_back()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a lease is not pickled: pass lease.key on, and the child counts as the same holder")

    def __repr__(self) -> str:
        units = ", ".join(f"{unit.pool}/{unit.name}#{unit.fence}" for unit in self._tenure.lease.units)
        return f"<Lease {self.id} {units}>"

    def _change(self, make: Callable[[int], frames.ToNode], *, repeatable: bool) -> None:
        result_of(self._link.change(self._tenure, make, repeatable=repeatable).future)

    def _hear_loss(self, loss: LeaseLost) -> None:
        """From any thread: the link's, or the body's own when a check finds the deadline passed."""
        self._event.set()
        with self._link.lock:
            if self._on_loss == "cancel" and self._body not in {None, threading.get_ident()}:
                self._struck = interrupt.strike(self._body or 0, loss)
