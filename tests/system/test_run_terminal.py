"""`holdall run` at a terminal: the command has it, Ctrl-C and Ctrl-Z mean the command, a shell's job control works."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from node.lab import Lab, lab
from node.waiting import until
from system.runs import all_free, environment, free_units, numbers_in, running
from system.terminal import HOLDALL, PROMPT, Shell

pytestmark = [pytest.mark.system, pytest.mark.requires("linux", "bash")]

RUN = f"{HOLDALL} run --need psu:2 --"


@pytest.fixture(scope="module")
def node() -> Iterator[Lab]:
    with lab() as made:
        made.start("--new")
        yield made


@pytest.fixture
def shell(node: Lab) -> Iterator[Shell]:
    with Shell(environment(node)) as shell:
        yield shell


def test_c9_ctrl_c_ends_the_command_and_the_shell_goes_on(node: Lab, shell: Shell) -> None:
    shell.enter(f"{RUN} sh -c 'echo up; exec sleep 1000'")
    shell.expect("\nup")
    shell.press("c")
    shell.expect(PROMPT)
    assert shell.status() == 130
    assert all_free(node)


def test_a_command_that_handles_ctrl_c_goes_on(node: Lab, shell: Shell) -> None:
    shell.enter(
        f"""{RUN} sh -c 'trap "echo caught" INT; echo up; until read line; do :; done; echo line=$line'"""
    )
    shell.expect("\nup")
    shell.press("c")
    shell.expect("caught")
    shell.enter("more")
    shell.expect("line=more")
    shell.expect(PROMPT)
    assert shell.status() == 0


def test_an_interactive_shell_inside_has_the_terminal(node: Lab, shell: Shell) -> None:
    shell.enter(f"{RUN} bash --norc --noprofile --noediting -i")
    shell.expect("granted   lease")
    shell.expect(PROMPT)
    shell.enter("sh -c 'echo inside-$HOLDALL_UNITS_PSU; exec sleep 1000'")
    shell.expect("inside-psu-1,psu-2")
    shell.press("c")  # for the sleep, not for the inner shell
    shell.expect(PROMPT)
    shell.enter("exit 7")
    shell.expect(PROMPT)
    assert shell.status() == 7
    assert all_free(node)


def test_ctrl_z_gives_the_prompt_back_while_the_lease_stays_and_fg_goes_on(node: Lab, shell: Shell) -> None:
    shell.enter(f"{RUN} sh -c 'echo up; read line; echo line=$line'")
    shell.expect("\nup")
    for answer in ("first", "second"):
        shell.press("z")
        shell.expect("Stopped")
        shell.expect(PROMPT)
        assert free_units(node, "psu") == 0
        shell.enter("fg")
        shell.expect("run --need")
        # Until the command has the terminal and goes on, what is typed is for the shell.
        until(lambda: shell.foreground() == ("sh", "S"), "the command goes on in the foreground")
        if answer == "second":
            shell.enter(answer)
    shell.expect("line=second")
    shell.expect(PROMPT)
    assert shell.status() == 0
    assert all_free(node)


def test_in_the_background_it_runs_and_stops_when_it_reads(node: Lab, shell: Shell, tmp_path: Path) -> None:
    shell.enter(f"{RUN} sh -c 'echo $$ > {tmp_path}/up; read line; echo line=$line' &")
    shell.expect(PROMPT)
    numbers_in(tmp_path / "up")
    until(lambda: _stopped_job(shell), "the shell sees the job stopped as it wants to read")
    shell.enter("fg")
    shell.expect("run --need")
    shell.enter("hello")
    shell.expect("line=hello")
    shell.expect(PROMPT)
    assert all_free(node)


def _stopped_job(shell: Shell) -> bool:
    shell.enter("jobs; echo listed")
    return "Stopped" in shell.expect(r"\nlisted")


def test_in_a_pipeline_it_gets_the_terminal_when_it_asks(node: Lab, shell: Shell) -> None:
    shell.enter(f"{RUN} sh -c 'read line; echo line=$line' | tr a-z A-Z")
    shell.expect("granted   lease")
    shell.enter("hello")
    shell.expect("LINE=HELLO")
    shell.expect(PROMPT)
    assert all_free(node)


def test_c9_closing_the_terminal_ends_the_command(node: Lab, tmp_path: Path) -> None:
    with Shell(environment(node)) as shell:
        shell.enter(f"{RUN} sh -c 'echo $$ > {tmp_path}/up; exec sleep 1000'")
        pids = numbers_in(tmp_path / "up")
        assert pids
    until(lambda: all_free(node), "the terminal was closed, the command ended, its units are free")


def test_waiting_is_shown_live_and_ctrl_c_ends_it(node: Lab, shell: Shell, tmp_path: Path) -> None:
    with running(
        node, "--need", "psu", "--reason", "soak", "--", "sh", "-c", f"echo $$ > {tmp_path}/up; sleep 1000"
    ):
        numbers_in(tmp_path / "up")
        shell.enter(f"{RUN} true")
        shell.expect("waiting   psu:2 busy 1/2")
        shell.expect('1st of 1 · blocked by .*"soak"')
        shell.press("c")
        shell.expect(PROMPT)
        assert shell.status() == 130
