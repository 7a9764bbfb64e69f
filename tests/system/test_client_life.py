"""The SDK against a real node: nested claims, cancellation, a paused holder, a node that dies and comes back."""

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from node.lab import Lab, lab
from node.waiting import until, until_async
from system.runs import HOLDALL, all_free, environment, free_units

import holdall

pytestmark = [pytest.mark.system, pytest.mark.requires("linux")]


@pytest.fixture
def node() -> Iterator[Lab]:
    with lab() as made:
        made.start("--new")
        yield made


def url(node: Lab) -> str:
    return f"unix://{node.socket}"


def test_leases_extensions_drops_and_exchanges(node: Lab) -> None:
    with holdall.sync.connect(url(node), agent="ann") as hub:
        with hub.lease("board:2", "psu:1", hold_for="1h", reason="hil") as lease:
            assert sorted(lease.units) == ["board", "psu"]
            before = lease.info.until_ms
            lease.extend("2h")
            assert before is not None
            assert lease.info.until_ms is not None
            assert lease.info.until_ms > before + 3_000_000
            lease.drop(lease.units["board"][0])
            assert [unit.name for unit in lease.units["board"]] == ["board-2"]
            assert free_units(node, "board") == 2
            lease.exchange(add="psu:1", drop="board")
            assert sorted(unit.name for unit in lease.units["psu"]) == ["psu-1", "psu-2"]
            assert "board" not in lease.units
            (seen,) = hub.who()
            assert seen.holder.startswith("ann")
            assert seen.reason == "hil"
        assert lease.release().what == "already released"
    assert all_free(node)


def test_a_hard_end_that_somebody_else_extends_is_heard_of_in_time(node: Lab) -> None:
    with holdall.sync.connect(url(node)) as hub, hub.lease("psu:1", hold_for=3) as lease:
        renew = [*HOLDALL, "renew", lease.key, "--for", "1h"]
        subprocess.run(renew, env=environment(node), check=True, timeout=60)
        until(lambda: lease.seconds_left > 10, "the later end is known here")
        lease.check()
    assert all_free(node)


def test_an_exchange_that_must_wait_gives_everything_back_first(node: Lab) -> None:
    with holdall.sync.connect(url(node)) as hub, holdall.sync.connect(url(node)) as others:
        other = others.lease("psu:2")
        with hub.lease("board:2", reason="hil") as lease:
            first = lease.id
            with pytest.raises(holdall.NotGranted) as refused:
                lease.exchange(add="psu:1", drop="board-1")
            assert refused.value.why is not None
            assert [blocker.claim for blocker in refused.value.why.blockers] == [other.info.lease]
            assert [unit.name for unit in lease.units["board"]] == ["board-1", "board-2"]
            releasing = threading.Thread(target=_release_when_somebody_waits, args=(others, other))
            releasing.start()
            lease.exchange(add="psu:1", drop="board-1", release_first=True, wait=30)
            releasing.join()
            assert {pool: len(units) for pool, units in lease.units.items()} == {"board": 1, "psu": 1}
            assert lease.id != first
            with hub.lease("psu:1") as view:  # the scope is the new lease's
                assert view.units["psu"] == lease.units["psu"]
    assert all_free(node)


def _release_when_somebody_waits(hub: holdall.sync.Hub, lease: holdall.sync.Lease) -> None:
    until(lambda: len(hub.queue()) == 1 and len(hub.who()) == 1, "it has given everything back and waits")
    lease.release()


def test_c17_nested_claims(node: Lab) -> None:
    with holdall.sync.connect(url(node)) as hub, hub.lease("psu:1") as outer:
        with hub.lease("psu:1") as view:
            assert view.units == outer.units
        outer.check()
        with pytest.raises(
            holdall.WouldDeadlock, match=r"test_client_life\.py:\d+.*test_client_life\.py:\d+"
        ):
            hub.lease("psu:2")
        with pytest.raises(holdall.WouldDeadlock) as refused:
            hub.lease("psu:2")
        assert refused.value.why is not None
        assert [blocker.claim for blocker in refused.value.why.blockers] == [outer.info.lease]
        more = hub.try_lease("board:3")
        assert more is not None
        more.release()
        with hub.lease("psu:1", independent=True) as other:
            assert other.units["psu"][0].name != outer.units["psu"][0].name
    assert all_free(node)


def test_c17_a_child_with_the_key_counts_as_the_same_holder(node: Lab) -> None:
    script = (
        "import holdall\n"
        "with holdall.sync.connect() as hub:\n"
        "    with hub.lease('psu:1') as view: print(view.units['psu'][0].name, view.seconds_left > 1)\n"
        "    try: hub.lease('psu:2')\n"
        "    except holdall.WouldDeadlock: print('refused')\n"
    )
    with holdall.sync.connect(url(node)) as hub, hub.lease("psu:1") as lease:
        child = subprocess.run(
            [sys.executable, "-c", script],
            env=environment(node, HOLDALL_LEASE=lease.key),
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        assert child.stdout.splitlines() == [f"{lease.units['psu'][0].name} True", "refused"]
        lease.check()
    assert all_free(node)


def test_c7_release_and_cancel_in_one_turn_in_both_orders(node: Lab) -> None:
    async def one(order: str) -> None:
        async with holdall.connect(url(node)) as hub:
            holder = await hub.lease("psu:2", independent=True)
            waiters = [asyncio.create_task(_held(hub)) for _ in range(3)]

            async def queue_length() -> int:
                return len(await hub.queue())

            while await queue_length() < 3:
                pass
            if order == "release first":
                releasing = asyncio.ensure_future(holder.release())
                await asyncio.sleep(0)
                waiters[0].cancel()
            else:
                waiters[0].cancel()
                releasing = asyncio.ensure_future(holder.release())
            await releasing
            async with asyncio.timeout(30):
                results = await asyncio.gather(*waiters, return_exceptions=True)
            assert [type(result) for result in results[1:]] == [str, str]

    for order in ("release first", "cancel first"):
        asyncio.run(one(order))
        until(lambda: all_free(node), "the pool's count is exact afterwards")


async def _held(hub: holdall.Hub) -> str:
    async with hub.lease("psu:2", independent=True) as lease:
        return lease.id


def test_c6_a_claim_cancelled_at_any_moment_leaves_nothing(node: Lab) -> None:
    async def many() -> None:
        async with holdall.connect(url(node)) as hub:
            for steps in range(40):
                claim = asyncio.create_task(_held_three(hub))
                for _ in range(steps):
                    await asyncio.sleep(0)
                claim.cancel()
                await asyncio.gather(claim, return_exceptions=True)
            await until_async(lambda: all_free(node), "everything is free")
            assert await hub.queue() == ()

    asyncio.run(many())


async def _held_three(hub: holdall.Hub) -> None:
    async with hub.lease("board:2", "psu:2"):
        await asyncio.sleep(0)


def test_c16_a_waiter_that_is_killed_is_no_obstacle(node: Lab, tmp_path: Path) -> None:
    script = "import holdall\nwith holdall.sync.connect() as hub, hub.lease('psu:2'): pass\n"
    with holdall.sync.connect(url(node)) as hub:
        holder = hub.lease("psu:2")
        dead = [subprocess.Popen([sys.executable, "-c", script], env=environment(node)) for _ in range(3)]
        until(lambda: len(hub.queue()) == 3, "three wait")
        for process in dead:
            process.kill()
            process.wait()
        until(lambda: hub.queue() == (), "the dead have left the queue")
        holder.release()
        with hub.lease("psu:2", wait=20):
            pass


def test_c2_leases_of_a_killed_process_are_free_at_once(node: Lab, tmp_path: Path) -> None:
    # Its ttl of a minute would keep them for as long, if its death were not noticed.
    script = f"""
import holdall, pathlib, time
with holdall.sync.connect() as hub, hub.lease('psu:2', ttl='1m', hold_for='1h'):
    pathlib.Path({str(tmp_path / "up")!r}).touch()
    time.sleep(1000)
"""
    process = subprocess.Popen([sys.executable, "-c", script], env=environment(node))
    until((tmp_path / "up").exists, "it holds")
    process.kill()
    process.wait()
    until(lambda: free_units(node, "psu") == 2, "its units are free")


def test_c8_a_paused_holder_learns_of_its_loss_before_it_goes_on(node: Lab, tmp_path: Path) -> None:
    script = f"""
import asyncio, holdall, pathlib
folder = pathlib.Path({str(tmp_path)!r})
async def main():
    async with holdall.connect() as hub:
        try:
            async with hub.lease('psu:2', ttl=6) as lease:
                (folder / 'fence').write_text(str(lease.units['psu'][0].fence))
                while True:
                    await asyncio.sleep(0.01)
                    with (folder / 'written').open('a') as file:
                        file.write('x')
        except holdall.LeaseLost as loss:
            (folder / 'lost').write_text(str(loss))
asyncio.run(main())
"""
    process = subprocess.Popen([sys.executable, "-c", script], env=environment(node))
    until((tmp_path / "written").exists, "it works with what it holds")
    process.send_signal(signal.SIGSTOP)
    with holdall.sync.connect(url(node)) as hub, hub.lease("psu:2", wait=30) as lease:
        written = (tmp_path / "written").stat().st_size
        fence = int((tmp_path / "fence").read_text())
        assert all(unit.fence > fence for unit in lease.units["psu"])
        process.send_signal(signal.SIGCONT)
        assert process.wait(30) == 0
        # The one step that it was in the middle of when it was stopped may end; a guard refuses it by its fence.
        assert (tmp_path / "written").stat().st_size <= written + 1
        lost = (tmp_path / "lost").read_text()
        assert lost.count("lost: no renewal") == 1, lost
        lease.check()


def test_c1_a_node_that_is_killed_and_restarted_keeps_leases_and_places(node: Lab) -> None:
    async def through() -> None:
        async with holdall.connect(url(node)) as hub:
            async with hub.lease("psu:2", independent=True) as lease:
                fences = [unit.fence for unit in lease.units["psu"]]
                waiting = asyncio.create_task(_held(hub))
                while len(await hub.queue()) < 1:
                    pass
                await asyncio.to_thread(node.kill)
                await asyncio.to_thread(node.start)
                (seen,) = await hub.who()
                assert seen.lease == lease.info.lease
                assert [unit.fence for unit in seen.units] == fences
                assert len(await hub.queue()) == 1
                lease.check()
            async with asyncio.timeout(30):
                await waiting

    asyncio.run(through())
    until(lambda: all_free(node), "everything is free")


def test_a_lease_that_was_granted_while_the_node_died_is_not_lost_to_anybody(node: Lab) -> None:
    """Claims in a row, the node killed in the middle of them: each is granted once or not at all, nothing stays."""

    async def claims(hub: holdall.Hub, rounds: int) -> int:
        done = 0
        for _ in range(rounds):
            async with hub.lease("psu:1", wait=60):
                done += 1
        return done

    async def through() -> None:
        async with holdall.connect(url(node)) as first, holdall.connect(url(node)) as second:
            tasks = [asyncio.create_task(claims(hub, 40)) for hub in (first, second, first)]
            for _ in range(2):
                await asyncio.sleep(0.05)
                await asyncio.to_thread(node.kill)
                await asyncio.to_thread(node.start)
            assert await asyncio.gather(*tasks) == [40, 40, 40]

    asyncio.run(through())
    until(lambda: all_free(node), "everything is free")
