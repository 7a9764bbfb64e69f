"""Many who look at jobs at the same time: the node is asked once for all of them."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from holdall.http.job_reading import JobReading
from holdall.http.reading import KINDS_MAX, Reading
from holdall.jobs.spec import JobSpec, TaskSpec, encode_job
from holdall.model import frames
from holdall.model.errors import BadSpec
from holdall.model.job_frames import JobFollow, JobList, JobRow, JobRows, JobTold

JOB = encode_job(JobSpec(name="night", tasks=(TaskSpec(name="a", run=("true",)),)))


def row(job: str) -> JobRow:
    return JobRow(job=job, name="night", user="eva", uid=1, state="running")


class Node(Reading):
    """Counts questions; each takes a turn of the loop."""

    def __init__(self) -> None:
        super().__init__("")
        self.asked: list[Any] = []  # type: ignore[assignment]

    async def talk(self) -> Any:
        return self

    def number(self) -> int:
        return 1

    async def answers(self, request: Any, *, within_s: float | None) -> AsyncIterator[frames.FromNode]:
        del within_s
        self.asked.append(request)
        await asyncio.sleep(0)
        match request:
            case JobList():
                yield JobRows(1, (row("A" * 26),), more=True)
                yield JobRows(1, (row("B" * 26),))
            case JobFollow(_, "bad"):
                raise BadSpec("no job 'bad' on this node.")
            case _:
                yield JobTold(1, row(cast("JobFollow", request).job), 0, job=JOB)


def test_those_who_ask_while_a_question_is_under_way_share_the_next_one() -> None:
    async def watch() -> Node:
        node = Node()
        reading = JobReading(node)
        first = asyncio.create_task(reading.all())
        await asyncio.sleep(0.001)
        told = await asyncio.gather(*(reading.all() for _ in range(50)))
        assert {tuple(one.job[0] for one in answer.jobs) for answer in (*told, await first)} == {("A", "B")}
        shown = await asyncio.gather(*(reading.one(name) for name in ("A", "B") for _ in range(50)))
        assert [one.job.job for one in shown] == ["A"] * 50 + ["B"] * 50
        return node

    asked = asyncio.run(watch()).asked
    assert [type(one) for one in asked] == [JobList, JobList, JobFollow, JobFollow]


def test_a_refusal_is_told_to_each_and_the_next_question_is_put_anew() -> None:
    async def watch() -> Node:
        node = Node()
        reading = JobReading(node)
        for _ in range(2):
            told = await asyncio.gather(*(reading.one("bad") for _ in range(3)), return_exceptions=True)
            assert [type(one) for one in told] == [BadSpec] * 3
        return node

    assert len(asyncio.run(watch()).asked) == 2


@pytest.mark.parametrize("names", [KINDS_MAX, 3 * KINDS_MAX])
def test_however_many_names_are_asked_for_few_are_remembered(names: int) -> None:
    async def watch() -> JobReading:
        reading = JobReading(Node())
        for number in range(names):
            await reading.one(f"J{number}")
        return reading

    assert len(asyncio.run(watch())._one) == KINDS_MAX
