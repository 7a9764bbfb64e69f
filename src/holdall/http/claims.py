"""Claims that were made over HTTP: each has a session of its own with the node and lives by its client's words.

The server says nothing for a client by itself: a Beat goes to the node when the client has said that it is there, so a
client that falls silent loses its claim by the node's own rules, a ttl after its last word. Should the server end, leases
stay for their ttl (they are taken as under guard) and are taken up again by their key.
"""

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable

import msgspec

from holdall.client.conversation import error_of
from holdall.guardian.clock import boottime_ms
from holdall.http.kept import outlived, refuse_more
from holdall.http.problems import Problem, ProblemDetail, detail_of, detail_of_error
from holdall.http.speaking import ANSWER_SECONDS_MAX, Talk
from holdall.http.words import ClaimShown
from holdall.model import frames
from holdall.model.errors import HoldallError, Unreachable
from holdall.model.why import Why

RETRY_S = 0.2
RENEW_SHARE = 3
NUMBERS = 1_000_000
"""Request numbers of one connection: they are unique in a session, over all of its connections."""


class HttpClaim:
    """One claim, from the request that made it to ten minutes after its end."""

    def __init__(
        self, path: str, uid: int, agent: str, claim: frames.Claim | None, renewed: Callable[[float], None]
    ) -> None:
        self._renewed = renewed
        self.uid = uid
        self.id = ""
        self.state = "waiting"
        self.why: Why | None = None
        self.granted: frames.Granted | None = None
        self.problem: ProblemDetail | None = None
        self.revoked = ""
        self.ended_ms = 0
        self.ttl_ms = 30_000 if claim is None else claim.ttl_ms
        self.heard_ms = boottime_ms()
        self.valid_until_ms: int | None = None
        """CLOCK_BOOTTIME, by the node's last word."""
        self.for_until_ms: int | None = None
        self._path = path
        self._agent = agent
        self._claim = claim
        self._talk: Talk | None = None
        self._openings = 0
        self._queue: asyncio.Queue[frames.FromNode | None] = asyncio.Queue()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._base_ms = boottime_ms()

    # ------------------------------------------------------------ for requests

    async def begin(self) -> None:
        """Ask the node; returns when it waits, is granted or is refused. Raises what the node refuses with."""
        assert self._claim is not None  # noqa: S101 - made with one
        talk = self._talk = await self._open("", "")
        self._base_ms = boottime_ms()
        self._claim = msgspec.structs.replace(self._claim, n=talk.number())
        self._queue = talk.call(self._claim)
        first = await _first(self._queue)
        if isinstance(first, frames.Denied):
            talk.close()
            raise error_of(first)
        self._hear(first)
        self._task = asyncio.get_running_loop().create_task(self._live())

    async def take_up(self, key: str) -> None:
        """Attach a lease by its key. Raises NotHolder when it has ended."""
        talk = self._talk = await self._open("", "")
        self._base_ms = boottime_ms()
        answer = await talk.ask(frames.Attach(n=talk.number(), key=key))
        self._hear(answer)
        self._task = asyncio.get_running_loop().create_task(self._live())

    async def beat(self) -> None:
        """Its client is there: so is it."""
        self.heard_ms = boottime_ms()
        talk = self._talk
        if talk is None or talk.is_over or self.state == "ended" or self.is_detached:
            return
        sent_ms = boottime_ms()
        try:
            answer = await talk.ask(frames.Beat(n=talk.number()))
        except Unreachable:
            return  # the connection is being made anew; the next word renews it
        if not isinstance(answer, frames.BeatOk):
            return
        self._renewed((boottime_ms() - sent_ms) / 1000)
        valid = dict(answer.valid_for_ms).get(self.id)
        if valid is None:
            if self.state == "granted":
                self._end(
                    detail_of(
                        "lost",
                        "the node has ended it; it was not renewed in time or was taken away",
                        exit_status=79,
                    )
                )
        elif valid >= 0:
            self._base_ms = sent_ms
            if self.state == "granted":
                self.valid_until_ms = sent_ms + valid

    async def changed(self, within_s: float) -> None:
        """Wait until its state is another one, at most so long."""
        if self.state == "ended":
            return
        self._changed.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._changed.wait()

    async def give_back(self) -> frames.Released:
        """Cancel or release it."""
        talk = self._talk
        if talk is None or talk.is_over:
            raise Unreachable("the node does not answer just now; ask again", definite=False)
        request: frames.ToNode
        if self.granted is None:
            request = frames.Cancel(n=talk.number(), claim=self.id)
        else:
            request = frames.Release(n=talk.number(), key=self.granted.key)
        answer = await talk.ask(request)
        if not isinstance(answer, frames.Released):
            raise Unreachable("the node gave an unexpected answer", definite=False)
        self._end(None)
        return answer

    def replaced(self, granted: frames.Granted) -> None:
        """The lease has a new hard end."""
        self.granted = granted
        if granted.for_left_ms is not None:
            self.for_until_ms = boottime_ms() + granted.for_left_ms

    @property
    def is_detached(self) -> bool:
        """Granted, and the node renews it by itself."""
        return self.granted is not None and self.granted.lease.detached

    def shown(self) -> ClaimShown:
        """For the client; numbers count from now, which is after its request was sent."""
        now = boottime_ms()
        held = self.granted is not None and self.state == "granted"
        return ClaimShown(
            claim=self.id,
            state=self.state,  # type: ignore[arg-type]
            beat_ms=self.ttl_ms // RENEW_SHARE,
            why=self.why if self.state == "waiting" else None,
            lease=None if self.granted is None else self.granted.lease,
            key=self.granted.key if held and self.granted is not None else "",
            valid_for_ms=max(0, self.valid_until_ms - now)
            if held and self.valid_until_ms is not None
            else None,
            for_left_ms=max(0, self.for_until_ms - now) if held and self.for_until_ms is not None else None,
            revoked=self.revoked,
            problem=self.problem,
        )

    def close(self) -> None:
        """Let go of the connection; what it holds stays for its ttl."""
        if self._task is not None:
            self._task.cancel()
        if self._talk is not None:
            self._talk.close()

    # ------------------------------------------------------------ the node's words

    async def _open(self, session: str, secret: str) -> Talk:
        self._openings += 1
        talk = await Talk.open(
            self._path,
            for_uid=self.uid,
            agent=self._agent,
            session=session,
            secret=secret,
            first=self._openings * NUMBERS,
        )
        talk.on_notice = self._notice
        return talk

    async def _live(self) -> None:
        """Hear what the node says until the end, over one connection after the other."""
        while self.state != "ended":
            answer = await self._queue.get()
            if answer is None:
                await self._come_back()
            else:
                self._hear(answer)
            if self.is_detached and self._talk is not None:
                self._changed.set()

    async def _come_back(self) -> None:
        """The connection broke: go on with the session, as long as the client's last word is not too old."""
        old = self._talk
        while self.state != "ended":
            if boottime_ms() - self.heard_ms > self.ttl_ms and not self.is_detached:
                self._end(detail_of("lost", "nothing was heard of its client for its ttl", exit_status=79))
                return
            await asyncio.sleep(RETRY_S)
            try:
                welcome = old.welcome if old is not None else None
                self._talk = await self._open(
                    welcome.session if welcome else "", welcome.secret if welcome else ""
                )
            except HoldallError:
                continue
            talk = self._talk
            if self.granted is not None:
                self._queue = talk.call(frames.Attach(n=talk.number(), key=self.granted.key))
            elif self._claim is not None:
                self._queue = talk.call(self._claim)
            return

    def _hear(self, answer: frames.FromNode | None) -> None:
        match answer:
            case frames.Queued():
                self.id = self.id or answer.claim
                self.why = answer.why
                self._changed.set()
            case frames.Granted():
                self._granted(answer)
            case frames.Denied():
                self._end(detail_of_error(error_of(answer)))
            case None:
                self._queue.put_nowait(None)
            case _:
                pass

    def _granted(self, granted: frames.Granted) -> None:
        first = self.granted is None
        self.granted = granted
        self.id = self.id or granted.lease.lease
        self.ttl_ms = granted.lease.ttl_ms
        self.state = "granted"
        self.valid_until_ms = self._base_ms + granted.valid_for_ms
        self.for_until_ms = None if granted.for_left_ms is None else self._base_ms + granted.for_left_ms
        talk = self._talk
        if (
            first
            and talk is not None
            and not granted.lease.detached
            and not talk.is_over
            and self._claim is not None
        ):
            # From now on under guard: it stays for its ttl should this process end.
            self._queue = talk.call(frames.Attach(n=talk.number(), key=granted.key))
        self._changed.set()

    def _notice(self, frame: frames.FromNode) -> None:
        if not isinstance(frame, frames.Lost) or frame.lease != self.id:
            return
        if frame.stop:
            self.revoked = frame.text
            self._changed.set()
        else:
            self._end(detail_of("lost", frame.text, exit_status=79))

    def _end(self, problem: ProblemDetail | None) -> None:
        if self.state == "ended":
            return
        self.state = "ended"
        self.problem = problem
        self.ended_ms = boottime_ms()
        self._changed.set()
        self.close()


class Claims:
    """All claims of this server."""

    def __init__(self, path: str, renewed: Callable[[float], None]) -> None:
        """`renewed` is told how many seconds each renewal took."""
        self._path = path
        self._renewed = renewed
        self._claims: dict[str, HttpClaim] = {}
        self._beginning: dict[str, int] = {}

    def __len__(self) -> int:
        return sum(1 for claim in self._claims.values() if claim.state != "ended")

    async def make(self, uid: int, agent: str, claim: frames.Claim) -> HttpClaim:
        """A new claim. Raises HoldallError, or Problem when there are too many."""
        return await self._begin(
            HttpClaim(self._path, uid, agent, claim, self._renewed), lambda made: made.begin()
        )

    async def take_up(self, uid: int, key: str) -> HttpClaim:
        """A lease that another server, or an earlier one, knew."""
        return await self._begin(
            HttpClaim(self._path, uid, "", None, self._renewed), lambda made: made.take_up(key)
        )

    def find(self, uid: int, claim: str) -> HttpClaim:
        """A claim of this user. Raises Problem."""
        found = self.known_of(uid, claim)
        if found is None:
            raise Problem(
                "not-holder",
                f"no claim {claim[:80]} of yours was made here. See: GET /v1/queue, GET /v1/leases",
            )
        return found

    def known_of(self, uid: int, claim: str) -> HttpClaim | None:
        """The same, or None."""
        found = self._claims.get(claim)
        return found if found is not None and found.uid == uid else None

    def known(self, key: str) -> HttpClaim | None:
        """The claim whose lease has this key or printed id."""
        for claim in self._claims.values():
            if claim.granted is not None and key in {claim.id, claim.granted.key}:
                return claim
        return None

    def close(self) -> None:
        """Let go of all connections."""
        for claim in self._claims.values():
            claim.close()

    async def _begin(self, claim: HttpClaim, begin: Callable[[HttpClaim], Awaitable[None]]) -> HttpClaim:
        self._sweep()
        open_of = [one.uid for one in self._claims.values() if one.state != "ended"]
        refuse_more((*open_of, *self._beginning.values()), claim.uid, "claims of yours")
        ticket = secrets.token_hex(8)
        self._beginning[ticket] = claim.uid
        try:
            await begin(claim)
        except BaseException:
            claim.close()
            raise
        finally:
            del self._beginning[ticket]
        self._claims[claim.id] = claim
        return claim

    def _sweep(self) -> None:
        ended = {key: one.ended_ms for key, one in self._claims.items() if one.state == "ended"}
        for key in outlived(ended, boottime_ms()):
            del self._claims[key]


async def _first(queue: asyncio.Queue[frames.FromNode | None]) -> frames.FromNode:
    try:
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            answer = await queue.get()
    except TimeoutError:
        answer = None
    if answer is None:
        raise Unreachable("the node does not answer; the claim may wait there", definite=False)
    return answer
