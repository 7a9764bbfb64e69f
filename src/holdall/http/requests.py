"""Requests to a location that wait, made over HTTP: each has a connection of its own to the node, and lives by its client.

The node drops a request when the connection of whoever waits for it ends, and this server ends it, in so many words, when
nothing was heard of its client for a while. What comes of a request is kept here by its name only: whether an offer still
stands and a lease still lives is asked of the node, each time anew.
"""

import asyncio
import contextlib
import re

import msgspec

from holdall.client.conversation import error_of
from holdall.client.location_words import refused
from holdall.guardian.clock import boottime_ms
from holdall.http.kept import outlived, refuse_more
from holdall.http.problems import Problem, ProblemDetail, detail_of, detail_of_error
from holdall.http.speaking import Talk
from holdall.model import frames
from holdall.model import location_frames as f
from holdall.model.errors import Unreachable

SILENT_MS = 30_000
"""A client of which nothing is heard for so long does not wait any more."""
FIRST_S = 2.0
"""So long the node may take to tell where a new request stands before the client is told that it waits."""
ENDING_S = 5.0
NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,63}")
"""Of a request that waits: it is a part of an address."""
CUT_OFF = detail_of_error(
    Unreachable("the node broke the connection off: the request waits no more. Ask anew", definite=False)
)


class HttpRequest:
    """One request, from when it was made to ten minutes after its answer. `uid`: whose; `wait_ms` > 0."""

    def __init__(self, path: str, uid: int, agent: str, question: f.AskOffer) -> None:
        self.uid, self.location, self.id = uid, question.location, question.request.request
        self.state = "waiting"
        """`waiting`, `offered`, `leased` or `ended`."""
        self.stands: f.InLine | None = None
        """As the location's manager said last; None: it has said nothing yet."""
        self.lease = ""
        """What was offered or given for it."""
        self.problem: ProblemDetail | None = None
        self.answered_ms = 0
        self._path, self._agent, self._question = path, agent, question
        self._until_ms = self._heard_ms = boottime_ms()
        self._changed = asyncio.Event()
        self._talk: Talk | None = None
        self._task: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Ask the node; returns when it has said something, at the latest after a moment. Raises what it refuses with."""
        talk = self._talk = await Talk.open(self._path, for_uid=self.uid, agent=self._agent)
        self._until_ms = boottime_ms() + self._question.request.wait_ms
        queue = talk.call(frames.Negotiate(talk.number(), f.pack(self._question)))
        self._task = asyncio.get_running_loop().create_task(self._live(queue))
        await self.changed(FIRST_S)
        if self.problem is not None:
            problem = Problem(self.problem.code, self.problem.detail)
            problem.detail = self.problem
            raise problem

    def hear(self) -> None:
        """Its client is there."""
        self._heard_ms = boottime_ms()

    async def changed(self, within_s: float) -> None:
        """Wait until something else is known of it, at most so long."""
        if self.state != "waiting":
            return
        self._changed.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._changed.wait()

    async def give_up(self) -> bool:
        """It leaves the line. False: it has its answer already. Raises Unreachable."""
        talk = self._talk
        if self.state != "waiting" or talk is None or talk.is_over:
            return self.state == "ended"
        answer = await talk.ask(frames.Negotiate(talk.number(), f.pack(f.GiveUp(self.id))))
        if not isinstance(answer, frames.Negotiated):
            raise Unreachable("the node gave an unexpected answer", definite=False)
        told = f.read_answer(answer.body)
        if isinstance(told, f.NoOffer) and told.reason == "cancelled":
            self.end(None)
            return True
        # Its answer came first, and is about to be read.
        await self.changed(ENDING_S)
        return False

    def left_ms(self) -> int:
        """How long it may yet wait."""
        return max(0, self._until_ms - boottime_ms())

    def end(self, problem: ProblemDetail | None) -> None:
        """Nothing comes of it any more."""
        if self.state != "ended":
            self.problem = problem
            self._answered("ended")

    def close(self) -> None:
        """Let go of the connection: the node drops what waits there."""
        if self._task is not None:
            self._task.cancel()
        if self._talk is not None:
            self._talk.close()

    # ------------------------------------------------------------ the node's words

    async def _live(self, queue: asyncio.Queue[frames.FromNode | None]) -> None:
        while self.state == "waiting":
            silent_ms = boottime_ms() - self._heard_ms
            if silent_ms >= SILENT_MS:
                self.end(_unheard())
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout((SILENT_MS - silent_ms) / 1000):
                    self._hear(await queue.get())

    def _hear(self, answer: frames.FromNode | None) -> None:
        match answer:
            case frames.Negotiated(_, body):
                try:
                    self._told(f.read_answer(body))
                except msgspec.DecodeError as error:
                    text = f"the node gave an unexpected answer ({error})"
                    self.end(detail_of_error(Unreachable(text, definite=False)))
            case frames.Denied():
                self.end(detail_of_error(error_of(answer)))
            case None:
                self.end(CUT_OFF)
            case _:
                pass

    def _told(self, answer: f.ToClient) -> None:
        match answer:
            case f.InLine():
                if self.stands != answer:
                    self.stands = answer
                    self._changed.set()
            case f.OfferIs(document, _):
                self.lease = document.lease
                self._answered("offered")
            case f.LeaseIs(document, _):
                self.lease = document.lease
                self._answered("leased")
            case f.NoOffer():
                self.end(Problem.later(refused(answer, self.location), answer.retry_after_ms).detail)
            case _:
                self.end(CUT_OFF)

    def _answered(self, state: str) -> None:
        self.state, self.answered_ms = state, boottime_ms()
        self._changed.set()
        if self._talk is not None:
            self._talk.close()


class Requests:
    """All of this server that wait or were answered lately, by whose they are and their names."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._requests: dict[tuple[int, str], HttpRequest] = {}

    def __len__(self) -> int:
        return sum(one.state == "waiting" for one in self._requests.values())

    async def make(self, uid: int, agent: str, question: f.AskOffer) -> HttpRequest:
        """A new one, or the one that waits under this name. Raises HoldallError, or Problem when there are too many."""
        self._sweep()
        name = question.request.request
        if not NAME.fullmatch(name):
            raise Problem(
                "bad-spec",
                "the id of a request that waits has 1 to 64 letters, digits, points and dashes",
            )
        known = self._requests.get((uid, name))
        if known is not None and known.state == "waiting":
            if known.location != question.location:
                raise Problem(
                    "bad-spec",
                    f"a request of yours with this id waits at {known.location}; give this one another id",
                )
            known.hear()
            return known
        open_of = (one.uid for one in self._requests.values() if one.state == "waiting")
        refuse_more(open_of, uid, "requests of yours")
        made = self._requests[uid, name] = HttpRequest(self._path, uid, agent, question)
        try:
            await made.begin()
        except BaseException:
            made.close()
            self._requests.pop((uid, name), None)
            raise
        return made

    def find(self, uid: int, location: str, name: str) -> HttpRequest:
        """One of this user. Raises Problem."""
        found = self._requests.get((uid, name))
        if found is None or found.location != location:
            raise Problem(
                "not-holder",
                f"no request {name[:80]} of yours waits here. See: GET /v1/offers, GET /v1/locations/{{location}}/leases",
            )
        return found

    def close(self) -> None:
        """Let go of all connections."""
        for one in self._requests.values():
            one.close()

    def _sweep(self) -> None:
        over = {key: one.answered_ms for key, one in self._requests.items() if one.state != "waiting"}
        for key in outlived(over, boottime_ms()):
            del self._requests[key]


def _unheard() -> ProblemDetail:
    text = f"nothing was heard of its client for {SILENT_MS // 1000} s: it has left the line. Ask anew"
    return detail_of("lost", text, exit_status=79)
