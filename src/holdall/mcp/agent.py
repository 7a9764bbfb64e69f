"""One agent: a party of its own, with its own session at the node, at most one waiting claim, and its leases.

It is called again and again by somebody who may stop calling without a word, so nothing that it has outlives its
silence: a place in line and a lease that it was never told of are given up after a while, every lease ends by its `for`.
"""

import asyncio
import contextlib
import contextvars
import time
from collections.abc import Iterable

from holdall.client import scope
from holdall.client.calls import ClaimCall
from holdall.client.link import Link
from holdall.client.tenure import Tenure
from holdall.client.wishes import build_claim
from holdall.guardian.clock import boottime_ms
from holdall.model import frames
from holdall.model.durations import finite_duration, show_duration
from holdall.model.errors import BadSpec, NotHolder, WouldDeadlock
from holdall.model.names import short_id
from holdall.model.spec import parse_need
from holdall.model.why import Why

FIRST_NEWS_S = 5.0
"""How long a claim is given to be granted or put in line before its caller is answered."""
PLACE_KEPT_S = 600.0
"""A place in line is given up after so long without a call."""
GRANT_KEPT_S = 120.0
"""A lease that was granted while nobody called is given back after so long."""


class Waiting:
    """The claim that waits."""

    def __init__(self, call: ClaimCall, news: asyncio.Event) -> None:
        self.call = call
        self.news = news
        """Set when it is in line or decided."""
        self.granted_s: float | None = None
        """When it was granted, unknown to the agent yet."""

    @property
    def why(self) -> Why | None:
        return self.call.why


class Agent:
    """To be used in one event loop; the link's thread only sets events and adds news."""

    def __init__(self, link: Link, secret: str, name: str) -> None:
        self.link = link
        self.secret = secret
        self.name = name
        self.waiting: Waiting | None = None
        self.leases: dict[str, Tenure] = {}
        """By printed id."""
        self.called_s = time.monotonic()
        self.busy = asyncio.Lock()
        """Its calls are served one after the other."""
        self._news: list[str] = []
        self._to_confirm: list[Tenure] = []

    # ------------------------------------------------------------ what is so now

    def look(self) -> None:
        """Take in what has happened since: a grant, the end of a wait, a loss."""
        waiting = self.waiting
        if waiting is not None and waiting.call.done:
            problem = waiting.call.future.exception()
            if problem is None:
                if waiting.granted_s is None:
                    waiting.granted_s = time.monotonic()
            else:
                self.waiting = None
                self._news.append(f"your claim has ended: {problem}")
        for printed, tenure in list(self.leases.items()):
            if tenure.lost is not None:
                del self.leases[printed]
                if tenure.revoked:
                    self._to_confirm.append(tenure)
                self._news.append(f"{tenure.lost} Its units may be somebody else's now: stop using them.")

    def called(self) -> None:
        """The agent calls: it is there, and is told of its grant by whatever is answered."""
        self.called_s = time.monotonic()
        self.look()
        waiting = self.waiting
        if waiting is not None and waiting.granted_s is not None:
            self.waiting = None
            tenure = waiting.call.future.result()
            self.leases[tenure.name] = tenure
            self.look()
        # Whoever took a lease away waits until its holder has stopped, and it can't have before it is told: by this answer.
        revoked, self._to_confirm = self._to_confirm, []
        for tenure in revoked:
            self.link.release(tenure)

    def take_news(self) -> list[str]:
        """What was not told yet; told by this."""
        news, self._news = self._news, []
        return news

    def tidy(self, now_s: float) -> None:
        """Give up what a silent agent has in line, or was granted in vain. Idempotent."""
        self.look()
        waiting = self.waiting
        if waiting is None:
            return
        if waiting.granted_s is not None and now_s > waiting.granted_s + GRANT_KEPT_S:
            text = f"was granted, and given back since you did not call for {show_duration(int(GRANT_KEPT_S * 1000))}"
        elif waiting.granted_s is None and now_s > self.called_s + PLACE_KEPT_S:
            text = f"was given up since you did not call for {show_duration(int(PLACE_KEPT_S * 1000))}"
        else:
            return
        self.waiting = None
        self.link.abandon(waiting.call)
        self._news.append(
            f"your claim {short_id(waiting.call.printed)} {text}. Claim again if you still want it."
        )

    @property
    def idle(self) -> bool:
        """It has nothing and waits for nothing."""
        return self.waiting is None and not self.leases

    def seconds_left(self, tenure: Tenure) -> float | None:
        """To the hard end of a lease; None: it has none."""
        if tenure.hard_end_ms is None:
            return None
        return max(tenure.hard_end_ms - boottime_ms(), 0) / 1000

    # ------------------------------------------------------------ what it does

    async def claim(
        self, needs: Iterable[str], *, hold_for: str, wait: str, reason: str
    ) -> "Tenure | Waiting":
        """Ask for all needs: a lease, or the place in line, whichever is known first. Never waits for the grant.

        Who holds a lease gets more only if it is free now: WouldDeadlock otherwise. Raises every error of a claim.
        """
        if self.waiting is not None:
            raise BadSpec(
                f"you wait for claim {short_id(self.waiting.call.printed)} already. Call check to see how far it is, or "
                "release with its id to give it up, or claim all that you need at once"
            )
        finite_duration(wait, what="wait")
        finite_duration(hold_for, what="hold_for")
        specs = [parse_need(tuple(part.strip() for part in need.split(" or "))) for need in needs]
        first = self._send(specs, hold_for=hold_for, wait=wait, reason=reason, now=False)
        await self._hear(first)
        if first.call.done and isinstance(first.call.future.exception(), WouldDeadlock):
            at_once = self._send(specs, hold_for=hold_for, wait=wait, reason=reason, now=True)
            await self._hear(at_once)
            if at_once.call.done and at_once.call.future.exception() is None:
                first = at_once
            else:
                self.link.abandon(at_once.call)
        if not first.call.done:
            self.waiting = first
            return first
        tenure = first.call.future.result()
        if tenure.view:  # of a lease that it holds already
            self.link.release(tenure)
        else:
            self.leases[tenure.name] = tenure
        return tenure

    def _send(self, needs: list[frames.Need], *, hold_for: str, wait: str, reason: str, now: bool) -> Waiting:
        context = contextvars.copy_context()
        context.run(scope.site.set, f"a call of {self.name}")
        held = next(reversed(self.leases.values()), None)
        if held is not None:
            context.run(scope.enter, held)
        claim: frames.Claim = context.run(
            build_claim,
            needs,
            welcome=self.link.welcome,
            wait=wait,
            now=now,
            ttl=None,
            hold_for=hold_for,
            reason=reason,
            independent=False,
            allow_future=False,
        )
        loop, news = asyncio.get_running_loop(), asyncio.Event()

        def hear(_: object) -> None:
            """In the link's thread."""
            with contextlib.suppress(RuntimeError):  # the loop is closed: the server ends
                loop.call_soon_threadsafe(news.set)

        call = self.link.claim(claim, on_queued=hear)
        call.future.add_done_callback(hear)
        return Waiting(call, news)

    async def _hear(self, waiting: Waiting) -> None:
        """Until it is in line or decided, for a moment at most: a node that does not answer keeps no caller."""
        try:
            async with asyncio.timeout(FIRST_NEWS_S):
                await waiting.news.wait()
        except TimeoutError:
            return
        except BaseException:
            self.link.abandon(waiting.call)
            raise

    async def extend(self, lease: str, hold_for: str) -> Tenure:
        """A later hard end, counted from now. Raises NotHolder, Refused, LeaseLost."""
        tenure = self._held(lease)
        for_ms = finite_duration(hold_for, what="hold_for")
        call = self.link.change(
            tenure, lambda n: frames.Extend(n=n, key=tenure.key, for_ms=for_ms), repeatable=True
        )
        await asyncio.wrap_future(call.future)
        return tenure

    async def release(self, lease: str) -> list[str]:
        """Give back a lease, the waiting claim, or everything (`all`): what was done, a line each."""
        done: list[str] = []
        waiting = self.waiting
        if waiting is not None and lease in {"all", short_id(waiting.call.printed), waiting.call.printed}:
            self.waiting = None
            self.link.abandon(waiting.call)
            done.append(f"claim {short_id(waiting.call.printed)}: given up")
        for tenure in list(self.leases.values()) if lease == "all" else [] if done else [self._held(lease)]:
            released = await asyncio.wrap_future(self.link.release(tenure).future)
            self.leases.pop(tenure.name, None)
            done.append(f"lease {tenure.name}: {released.what}")
        return done

    def _held(self, lease: str) -> Tenure:
        if lease in self.leases:
            return self.leases[lease]
        if lease in {"", "all"} and len(self.leases) == 1:
            return next(iter(self.leases.values()))
        held = ", ".join(self.leases) or "none"
        raise NotHolder(f"you hold no lease {lease or '(none named)'}. Yours: {held}")

    async def close(self) -> None:
        """Give everything back. Idempotent."""
        await asyncio.to_thread(self.link.close)

    async def listing(self, what: str) -> frames.Listing:
        """What the node says of the system: `who` or `queue`. Raises Unreachable."""
        call = self.link.ask("who" if what == "who" else "queue")
        return await asyncio.wrap_future(call.future)
