"""Commands of pools: filled in safely, bounded in time and number, told once."""

import asyncio
from pathlib import Path

from node.waiting import until_async

from holdall.node.hooks import AT_ONCE_MAX, Hooks, execute, fill_in
from holdall.parties.messages import HookDone, RunHook


class Silent:
    def info(self, event: str, **values: object) -> None:
        pass


def order(command: str, *, run: int = 1, unit: str = "psu-1", limit_ms: int = 20_000) -> RunHook:
    return RunHook(
        run=run,
        hook="on_release",
        pool="psu",
        unit=unit,
        fence=61,
        command=command,
        limit_ms=limit_ms,
        claim="7K4M",
    )


def test_placeholders_are_filled_in_and_values_are_quoted() -> None:
    assert fill_in(order("off {unit} {pool} {fence} {lease} ${X} {y}")) == "off psu-1 psu 61 7K4M ${X} {y}"
    assert fill_in(order("off {unit}", unit="a; rm -rf x")) == "off 'a; rm -rf x'"


def test_a_command_that_succeeds_says_its_last_line() -> None:
    done = asyncio.run(execute(order("echo first; echo $HOLDALL_UNIT#$HOLDALL_FENCE of $HOLDALL_POOL >&2")))
    assert done == HookDone(1, ok=True, text="on_release done: psu-1#61 of psu")


def test_a_command_that_fails_says_how() -> None:
    assert asyncio.run(execute(order("echo no relay; exit 3"))) == HookDone(
        1, ok=False, text="on_release exit status 3: no relay"
    )
    assert asyncio.run(execute(order("kill -9 $$"))) == HookDone(
        1, ok=False, text="on_release ended by signal 9"
    )


def test_a_command_over_its_time_is_killed_with_its_children(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    done = asyncio.run(execute(order(f"sleep 300 & echo $! > {pid_file}; wait", limit_ms=500)))
    assert done == HookDone(1, ok=False, text="on_release not done within 0.5 s")
    status = Path(f"/proc/{pid_file.read_text().strip()}/status")
    assert not status.exists() or "State:\tZ" in status.read_text()


def test_a_lot_of_output_blocks_nothing() -> None:
    done = asyncio.run(execute(order("head -c 3000000 /dev/zero | tr '\\0' x; echo; echo end")))
    assert done == HookDone(1, ok=True, text="on_release done: end")


def test_commands_run_side_by_side_up_to_a_bound_and_each_is_told_once(tmp_path: Path) -> None:
    async def run_all() -> tuple[list[int], int]:
        told: list[int] = []
        hooks = Hooks(lambda _, done: told.append(done.run if done.ok else -1), Silent())
        for number in range(AT_ONCE_MAX + 8):
            hooks.run(
                order(
                    f"touch {tmp_path}/{number}; until [ -e {tmp_path}/go ]; do sleep 0.02; done", run=number
                )
            )
        await until_async(lambda: len(list(tmp_path.iterdir())) >= AT_ONCE_MAX, "the first commands run")
        most = len(list(tmp_path.iterdir()))  # noqa: ASYNC240
        (tmp_path / "go").touch()
        await until_async(lambda: len(told) == AT_ONCE_MAX + 8, "all commands are told")
        await hooks.close()
        return sorted(told), most

    told, most = asyncio.run(asyncio.wait_for(run_all(), 60))
    assert told == list(range(AT_ONCE_MAX + 8))
    assert most == AT_ONCE_MAX


def test_closing_ends_what_runs_and_tells_nothing(tmp_path: Path) -> None:
    async def run_and_close() -> list[int]:
        told: list[int] = []
        hooks = Hooks(lambda _, done: told.append(done.run), Silent())
        hooks.run(order(f"echo $$ > {tmp_path}/pid; sleep 300"))
        pid = tmp_path / "pid"
        await until_async(lambda: pid.exists() and pid.read_text().strip(), "the command runs")
        await hooks.close()
        return told

    assert asyncio.run(asyncio.wait_for(run_and_close(), 60)) == []
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()
