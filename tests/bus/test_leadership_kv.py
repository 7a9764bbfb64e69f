"""Candidates on a real nats-server with JetStream: its table is written, lost, deleted, and stands still."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator

import pytest
from bus.jetstream import SYSTEM, JetStreamServer, jetstream, until
from bus.nodes import Lines

from holdall.bus.connection import Login
from holdall.bus.leadership import Entry, Leading, Word
from holdall.bus.leadership_kv import KvLeadership
from holdall.bus.leadership_table import Outrun, Table, TableLost, key_of
from holdall.bus.subjects import bucket, may_ask_store, store_inbox

pytestmark = pytest.mark.system
BEAT_MS = 50
TAKEOVER_MS = 400


class Candidate:
    """One candidate and what it was told."""

    def __init__(self, server: JetStreamServer, me: str, takeover_ms: int) -> None:
        self.me = me
        self.log = Lines()
        self.told: list[tuple[str, int]] = []
        self.part = KvLeadership(
            SYSTEM,
            "prague",
            me,
            servers=lambda: [server.url],
            login=Login,
            log=self.log,
            beat_ms=BEAT_MS,
            takeover_ms=takeover_ms,
        )

    async def open(self) -> None:
        await self.part.open(lambda leader, epoch: self.told.append((leader, epoch)))

    @property
    def leads(self) -> bool:
        return self.part.now.leader == self.me

    @property
    def epoch(self) -> int:
        return self.part.now.epoch


@contextlib.asynccontextmanager
async def candidates(
    count: int, server: JetStreamServer, takeover_ms: int = TAKEOVER_MS
) -> AsyncGenerator[list[Candidate]]:
    found = [Candidate(server, name, takeover_ms) for name in "abcdefgh"[:count]]
    for one in found:
        await one.open()
    try:
        yield found
    finally:
        for one in found:
            await one.part.close()


def leaders(them: list[Candidate]) -> list[Candidate]:
    return [one for one in them if one.leads]


async def one_leads(them: list[Candidate]) -> Candidate:
    """Until they are of one mind."""
    await until(
        lambda: len(leaders(them)) == 1 and len({one.part.now for one in them}) == 1,
        "one leads and all know it",
    )
    return leaders(them)[0]


def test_of_eight_candidates_one_leads_and_all_are_told_who() -> None:
    async def run() -> None:
        async with jetstream() as server, candidates(8, server, 5_000) as them:
            leader = await one_leads(them)
            await until(lambda: all(one.told for one in them), "all were told")
            assert {one.told[-1] for one in them} == {(leader.me, leader.epoch)}
            before = [one.part.now for one in them]
            beat = leader.part._election._beat
            await until(lambda: leader.part._election._beat > beat + 20, "it has said so again and again")
            assert [one.part.now for one in them] == before

    asyncio.run(run())


def test_a_leader_that_steps_down_is_succeeded_by_a_higher_epoch_and_so_is_one_that_is_gone() -> None:
    async def run() -> None:
        async with jetstream() as server, candidates(3, server, 1_500) as them:
            first = await one_leads(them)
            epoch = first.epoch
            await first.part.close()
            others = [one for one in them if one is not first]
            second = await one_leads(others)
            assert second.epoch == epoch + 1
            # Gone without a word: its task never runs again, as that of a process that is killed.
            task = second.part._task
            assert task is not None
            task.cancel()
            (third,) = [one for one in others if one is not second]
            await until(lambda: third.leads, "the last one leads")
            assert third.epoch == epoch + 2

    asyncio.run(run())


def test_a_bucket_that_is_deleted_is_made_anew_and_epochs_grow() -> None:
    async def run() -> None:
        async with jetstream() as server, candidates(3, server) as them:
            epoch = (await one_leads(them)).epoch
            for _ in range(5):
                await server.delete_bucket()
                await until(lambda: any(one.epoch > epoch for one in them), "there is a new epoch")  # noqa: B023
                leader = await one_leads(them)
                assert leader.epoch > epoch
                epoch = leader.epoch

    asyncio.run(run())


def test_a_server_that_is_killed_and_loses_its_store_changes_no_leader_until_it_is_back_and_epochs_grow() -> (
    None
):
    async def run() -> None:
        async with jetstream() as server, candidates(2, server) as them:
            leader = await one_leads(them)
            epoch = leader.epoch
            server.kill()
            await until(lambda: all(one.part.problem for one in them), "all have noticed")
            assert leader.leads
            server.forget()
            await server.start()
            await until(lambda: any(one.epoch > epoch for one in them), "there is a new epoch")
            assert (await one_leads(them)).epoch > epoch
            assert not any(one.part.problem for one in them)

    asyncio.run(run())


def test_a_server_that_stands_still_is_waited_for_and_its_table_still_holds() -> None:
    async def run() -> None:
        async with jetstream() as server, candidates(2, server) as them:
            epoch = (await one_leads(them)).epoch
            server.stop()
            await until(lambda: all(one.part.problem for one in them), "all have noticed")
            server.go_on()
            await until(lambda: not any(one.part.problem for one in them), "all are back")
            # The same, or the other one that was back first: the table knows the epoch that was before.
            assert epoch <= (await one_leads(them)).epoch <= epoch + 2

    asyncio.run(run())


def test_garbage_deletes_and_words_of_others_end_no_candidate() -> None:
    async def run() -> None:
        async with jetstream() as server, candidates(2, server) as them, server.client() as store:
            await one_leads(them)
            values = await store.key_value(bucket(SYSTEM))
            key = key_of("prague")
            hostile = (
                b"",
                b"\xff",
                b"[" * 900,
                b'{"leader":"x"}',
                b'{"leader":"x","process":"y","epoch":-1}',
            )
            epoch = 0
            for body in (*hostile, b'{"leader":"x","process":"y","epoch":1e400}'):
                await values.put(key, body)
                await until(lambda: max(one.epoch for one in them) > epoch, "somebody rose")  # noqa: B023
                epoch = (await one_leads(them)).epoch
            await values.purge(key)
            await until(lambda: max(one.epoch for one in them) > epoch, "somebody rose")
            assert (await one_leads(them)).epoch > epoch

    asyncio.run(run())


def test_a_host_that_has_heard_of_a_later_manager_makes_the_leader_rise_above_it_through_the_table() -> None:
    async def run() -> None:
        async with jetstream() as server, candidates(2, server) as them:
            leader = await one_leads(them)
            wanted = leader.epoch + 1000
            leader.part.seen(wanted)
            await until(lambda: all(one.epoch == wanted + 1 for one in them), "all know the new epoch")
            assert (await one_leads(them)) is leader

    asyncio.run(run())


def test_a_server_without_jetstream_is_told_and_nobody_leads() -> None:
    async def run() -> None:
        async with jetstream() as server:
            server.kill()
            await server.start(with_store=False)
            async with candidates(1, server) as (only,):
                await until(lambda: "JetStream" in only.part.problem, "the reason is known")
                assert only.part.now == Leading(None, 0)

    asyncio.run(run())


def test_the_permissions_that_are_named_suffice_and_no_others_are_needed() -> None:
    node = "a" * 20
    allowed = ", ".join(f'"{one}"' for one in may_ask_store(SYSTEM))
    rights = f"""
        authorization {{ users: [
          {{ user: n, password: p, permissions: {{
             publish: {{ allow: [{allowed}] }}, subscribe: {{ allow: ["{store_inbox(node)}"] }} }} }},
        ] }}"""

    async def run() -> None:
        async with jetstream() as server:
            server.kill()
            await server.start(rights)
            table = Table(SYSTEM, "prague")
            await table.open(server.url.replace("nats://", "nats://n:p@"), Login(), node)
            try:
                assert await table.look() is None
                word = Word(node, "1", 5)
                revision = await table.write(word, None)
                assert revision > 10**12  # the time, so that no bucket repeats the revisions of a lost one
                assert await table.look() == Entry(word, revision)
                with pytest.raises(Outrun):
                    await table.write(word, None)
                with pytest.raises(Outrun):
                    await table.write(word, revision + 1)
                assert await table.write(word, revision) == revision + 1
            finally:
                await table.close()
            await table.close()
            with pytest.raises(TableLost):
                await table.look()

    asyncio.run(run())
