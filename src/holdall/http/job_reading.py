"""What the node tells about jobs, shared by all who ask at the same time, as its other listings are."""

from typing import TypeVar

from holdall.http import job_words
from holdall.http.reading import KINDS_MAX, Reading, Shared
from holdall.http.speaking import ANSWER_SECONDS_MAX, Talk
from holdall.jobs.client import JobView, view_of
from holdall.jobs.shown import tasks_shown
from holdall.model import frames
from holdall.model.errors import Unreachable
from holdall.model.job_frames import JobFollow, JobList, JobRow, JobRows, JobTold

Answered = TypeVar("Answered", bound=frames.FromNode)


class JobReading:
    """Shared by all listeners and requests of the server."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._all = Shared(self._list)
        self._one: dict[str, Shared[job_words.OneJob]] = {}

    async def all(self) -> job_words.Jobs:
        """All jobs. Raises HoldallError."""
        return await self._all.get()

    async def one(self, job: str) -> job_words.OneJob:
        """A job by its id, or the beginning of it. Raises HoldallError."""
        shared = self._one.get(job)
        if shared is None:
            while len(self._one) >= KINDS_MAX:
                self._one.pop(next(iter(self._one)))
            shared = self._one[job] = Shared(lambda: self._show(job))
        return await shared.get()

    async def _list(self) -> job_words.Jobs:
        talk = await self._reading.talk()
        rows: list[JobRow] = []
        async for part in talk.answers(JobList(n=talk.number()), within_s=ANSWER_SECONDS_MAX):
            piece = expect(part, JobRows)
            rows += piece.rows
            if not piece.more:
                break
        return job_words.Jobs(jobs=tuple(rows))

    async def _show(self, job: str) -> job_words.OneJob:
        view = await job_of_node(await self._reading.talk(), job)
        return job_words.OneJob(job=view.row, tasks=tasks_shown(view))


async def job_of_node(talk: Talk, job: str) -> JobView:
    """As it is now. Raises HoldallError."""
    view: JobView | None = None
    async for part in talk.answers(JobFollow(talk.number(), job, once=True), within_s=ANSWER_SECONDS_MAX):
        told = expect(part, JobTold)
        view = view_of(told) if view is None else view
        view.add(told)
        if not told.more:
            return view
    raise Unreachable("the node gave an unexpected answer", definite=False)


def expect(answer: frames.FromNode, kind: type[Answered]) -> Answered:
    """The one kind of answer that there is. Raises Unreachable."""
    if not isinstance(answer, kind):
        raise Unreachable("the node gave an unexpected answer", definite=False)
    return answer
