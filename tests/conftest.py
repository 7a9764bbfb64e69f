"""Rules for all tests: what a test needs of the machine is stated and listed; no test leaves a process behind."""

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from bounded import (
    pytest_configure,
    pytest_exception_interact,
    pytest_runtest_protocol,
    pytest_unconfigure,
)
from capabilities import CAPABILITIES, unmet
from hypothesis import HealthCheck, settings

__all__ = [  # hooks of `bounded`
    "pytest_configure",
    "pytest_exception_interact",
    "pytest_runtest_protocol",
    "pytest_unconfigure",
]

NOT_OFFERED = "this machine does not offer: "
RUN_MARK = "HOLDALL_TEST_RUN"

# How long an example takes says nothing about its result, and a busy machine must not fail a test.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


def hear_signals() -> None:
    """A shell's background job and nohup ignore these for all that they start; what is tested here must hear them."""
    for number, normal in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGHUP, signal.SIG_DFL),
        (signal.SIGQUIT, signal.SIG_DFL),
    ):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, normal)


hear_signals()


def needs_of(item: pytest.Item) -> tuple[str, ...]:
    """All capabilities that the test's `requires` marks name, each once."""
    named = [str(name) for mark in item.iter_markers("requires") for name in mark.args]
    return tuple(dict.fromkeys(named))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        unknown = [name for name in needs_of(item) if name not in CAPABILITIES]
        if unknown:
            known = ", ".join(sorted(CAPABILITIES))
            msg = (
                f"{item.nodeid} requires {unknown}, which tests/capabilities.py does not know; known: {known}"
            )
            raise pytest.UsageError(msg)


def pytest_runtest_setup(item: pytest.Item) -> None:
    missing = unmet(needs_of(item))
    if not missing:
        return
    remedies = "; ".join(f"{name} ({CAPABILITIES[name].remedy})" for name in missing)
    if os.environ.get("CI", "").lower() in {"true", "1"}:
        pytest.fail(f"{NOT_OFFERED}{remedies} - in CI every requirement must be met", pytrace=False)
    pytest.skip(NOT_OFFERED + remedies)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List every test that was not run, and what would let it run."""
    not_run: list[str] = []
    for report in terminalreporter.getreports("skipped"):
        match report.longrepr:
            case (_, _, str(reason)):
                not_run.append(f"{report.nodeid}: {reason.removeprefix('Skipped: ')}")
            case other:
                not_run.append(f"{report.nodeid}: {other}")
    if not_run:
        terminalreporter.section(f"not run: {len(not_run)}")
        for line in sorted(not_run):
            terminalreporter.write_line(line)


def processes_of_run(run: str) -> dict[int, str]:
    """Command lines by process id of all live processes that inherited this run's mark."""
    wanted = f"{RUN_MARK}={run}".encode()
    found: dict[int, str] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if wanted not in (folder / "environ").read_bytes().split(b"\0"):
                continue
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:  # it ended while we looked, or belongs to somebody else
            continue
        if command:  # a zombie has none: it is over and only waits for its parent
            found[int(folder.name)] = command
    return found


@pytest.fixture(scope="session", autouse=True)
def machine_of_its_own() -> Iterator[None]:
    """No test sees this machine's nodes, or leaves a node's run mark where a real node would find it."""
    folder = tempfile.mkdtemp(dir="/tmp", prefix="hd-run-")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("HOLDALL_URL", "HOLDALL_LEASE", "HOLDALL_LEASE_FILE"):
            patch.delenv(name, raising=False)
        patch.setenv("HOLDALL_RUN_DIR", folder)
        yield
    shutil.rmtree(folder)


@pytest.fixture(scope="session", autouse=True)
def no_process_left_behind() -> Iterator[None]:
    """Every process that tests started is gone when the session ends; the last test reports one that is not."""
    run = f"{os.getpid()}-{os.environ.get('PYTEST_XDIST_WORKER', 'alone')}"
    before = os.environ.get(RUN_MARK)
    os.environ[RUN_MARK] = run
    yield
    if before is None:
        del os.environ[RUN_MARK]
    else:
        os.environ[RUN_MARK] = before
    left = processes_of_run(run)
    for process in left:
        os.kill(process, signal.SIGKILL)
    assert not left, f"tests left these processes running: {left}"
