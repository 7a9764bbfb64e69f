"""A lease in asyncio code: the body of its `async with` is cancelled when the lease is lost, and told why."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import NoReturn, Self

from holdall.client import scope
from holdall.client.calls import Call
from holdall.client.link import Link
from holdall.client.tenure import Tenure
from holdall.client.units import Unit, by_pool, drop_names, needs_without
from holdall.client.wishes import Duration, NeedLike, OnLoss, claim_anew
from holdall.model import frames
from holdall.model.durations import finite_duration
from holdall.model.errors import LeaseLost, NotGranted
from holdall.model.spec import parse_need
from holdall.model.why import Why


class Lease:
    """What `hub.lease(…)` gives. Not made by hand, not pickled: its `key` is what one passes on."""

    def __init__(self, link: Link, tenure: Tenure, on_loss: OnLoss) -> None:
        self._link = link
        self._tenure = tenure
        self._on_loss = on_loss
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0
        self._cancelled = False
        self._alarm: asyncio.TimerHandle | None = None
        self._event = asyncio.Event()
        tenure.listen(self._hear_loss)
        self._set_alarm()

    # ------------------------------------------------------------ what it is

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
    def lost(self) -> asyncio.Event:
        """Set when the lease is lost: `await lease.lost.wait()`."""
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

    # ------------------------------------------------------------ changing it

    async def extend(self, hold_for: Duration) -> None:
        """A later hard end (`for`), counted from now, at most the pool's `max_for`. Raises Refused beyond that."""
        for_ms = finite_duration(hold_for, what="for")
        await _outcome(
            self._link.change(
                self._tenure, lambda n: frames.Extend(n=n, key=self.key, for_ms=for_ms), repeatable=True
            )
        )

    async def drop(self, *units: Unit | str) -> None:
        """Give a part back early: Units, `pool/unit` or a pool's name (all its units). Stop using them before."""
        names = drop_names(self._tenure.lease.units, units)
        await _outcome(
            self._link.change(
                self._tenure, lambda n: frames.Drop(n=n, key=self.key, units=names), repeatable=True
            )
        )

    async def exchange(
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
        swap = self._link.change(
            self._tenure,
            lambda n: frames.Exchange(n=n, key=self.key, add=needs, drop=names),
            repeatable=False,
        )
        try:
            await _outcome(swap)
        except NotGranted:
            if not release_first:
                raise
        else:
            return
        before = self._tenure.lease
        await self.release()
        whole = (*needs_without(before.units, names), *needs)
        claim = claim_anew(before, whole, welcome=self._link.welcome, wait=wait)
        self._become(await granted(self._link, claim))

    def _become(self, tenure: Tenure) -> None:
        self._tenure = tenure
        if self._task is not None:
            scope.enter(tenure)
        tenure.listen(self._hear_loss)
        self._set_alarm()

    async def release(self, *, wait: bool = False) -> frames.Released:
        """Give it back; again does no harm. Says what was done, and by when the units are free at the latest.

        The request is under way at once, so cancelling this call only ends the waiting for the answer. `wait`: until the
        pools have taken the units back; what runs after that (`on_release`, `check`) is not waited for.
        """
        call = self._link.release(self._tenure, wait=wait)
        self._end()
        return await asyncio.shield(asyncio.wrap_future(call.future))

    # ------------------------------------------------------------ as a context

    async def __aenter__(self) -> Self:
        self.check()
        self._task = asyncio.current_task()
        self._cancelling = 0 if self._task is None else self._task.cancelling()
        scope.enter(self._tenure)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        loss = self._tenure.lost
        task, self._task = self._task, None
        scope.leave(self._tenure)
        call = self._link.release(self._tenure)
        self._end()
        ours = False
        if self._cancelled and task is not None:
            # Our own cancellation is taken back; somebody else's stays.
            ours = task.uncancel() <= self._cancelling
        # The release is under way. Being cancelled once more while a cancellation passes through adds nothing.
        cancelled = kind is not None and issubclass(kind, asyncio.CancelledError)
        with contextlib.suppress(asyncio.CancelledError) if cancelled else contextlib.nullcontext():
            await asyncio.shield(asyncio.wrap_future(call.future))
        if loss is None or self._on_loss != "cancel":
            return
        if kind is None or (ours and kind is asyncio.CancelledError):
            raise loss from None

    def __reduce__(self) -> NoReturn:
        raise TypeError("a lease is not pickled: pass lease.key on, and the child counts as the same holder")

    def __repr__(self) -> str:
        units = ", ".join(f"{unit.pool}/{unit.name}#{unit.fence}" for unit in self._tenure.lease.units)
        return f"<Lease {self.id} {units}>"

    # ------------------------------------------------------------ loss

    def _hear_loss(self, _loss: LeaseLost) -> None:
        """From any thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to be told
            self._loop.call_soon_threadsafe(self._tell_loss)

    def _tell_loss(self) -> None:
        """In the loop's thread."""
        if self._event.is_set() or self._tenure.lost is None:
            return
        self._event.set()
        self._end_alarm()
        if self._on_loss == "cancel" and self._task is not None and not self._task.done():
            self._cancelled = True
            self._task.cancel(str(self._tenure.lost))

    def _set_alarm(self) -> None:
        """The loop itself looks at the clock, so a body that was stopped and goes on is cancelled before it runs.

        A loop runs its due timers before the tasks that its sockets and sleeps woke up.
        """
        self._alarm = self._loop.call_later(self._tenure.left_ms() / 1000, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        if self._tenure.lost is not None:
            self._tell_loss()
        elif not self._tenure.released:
            self._set_alarm()

    def _end_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _end(self) -> None:
        self._end_alarm()
        self._tenure.forget(self._hear_loss)
        scope.leave(self._tenure)


async def granted(link: Link, claim: frames.Claim, on_wait: Callable[[Why], None] | None = None) -> Tenure:
    """Send a claim and wait for its grant; whoever is cancelled meanwhile leaves nothing behind."""
    loop = asyncio.get_running_loop()
    news: asyncio.Queue[Why | None] = asyncio.Queue()

    def hear(why: Why | None) -> None:
        """In the link's thread; None: it is decided."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to be told
            loop.call_soon_threadsafe(news.put_nowait, why)

    call = link.claim(claim, on_queued=None if on_wait is None else lambda queued: hear(queued.why))
    try:
        if on_wait is not None:
            call.future.add_done_callback(lambda _: hear(None))
            while (why := await news.get()) is not None:
                on_wait(why)
        tenure = await asyncio.wrap_future(call.future)
    except BaseException:
        # Whatever has become of it in this moment, granted or not, nobody wants it any more.
        link.abandon(call)
        raise
    if tenure.view and tenure.outer is None:
        tenure.outer = scope.outer_tenure(tenure.lease.lease)
    return tenure


async def _outcome(call: Call[frames.Granted]) -> frames.Granted:
    return await asyncio.wrap_future(call.future)
