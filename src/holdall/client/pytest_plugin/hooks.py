"""What pytest calls, in every run where holdall is installed: so this file loads nothing that talks to a node.

That is loaded when a test that was collected has needs.
"""

from typing import TYPE_CHECKING

import pytest

from holdall.client.pytest_plugin.said import BLOCKED, SESSION_FIXTURE, WAITED

if TYPE_CHECKING:
    from holdall.client.pytest_plugin.holding import Holding
    from holdall.client.sync import Lease

MARK = "needs"
OTHER_MARK = "holdall_needs"
WAIT_DEFAULT = "10m"
MISSING = ("fail", "skip")
SHOWN_MAX = 10
"""Tests that waited which the end of a run names, the longest waits first."""

mark_name = pytest.StashKey[str]()
holding_key: "pytest.StashKey[Holding]" = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Two options, each with a key of pytest's configuration."""
    group = parser.getgroup("holdall", "tests that need units which others use, too")
    group.addoption(
        "--holdall-wait",
        metavar="TIME",
        default=None,
        help=f"how long a test waits for what it needs, e.g. 10m; inf: no limit (default: holdall_wait, else {WAIT_DEFAULT})",
    )
    group.addoption(
        "--holdall-missing",
        choices=MISSING,
        default=None,
        help="what becomes of a test whose needs nobody has, or that finds no node (default: holdall_missing, else fail)",
    )
    parser.addini("holdall_wait", "as --holdall-wait", default=WAIT_DEFAULT)
    parser.addini("holdall_missing", "as --holdall-missing: fail or skip", default="fail")


def pytest_configure(config: pytest.Config) -> None:
    """A project that has a `needs` mark of its own keeps it: ours is `holdall_needs` there."""
    lines = [str(line).strip() for line in config.getini("markers")]
    foreign = any(line.startswith((f"{MARK}:", f"{MARK}(")) or line == MARK for line in lines)
    name = OTHER_MARK if foreign else MARK
    config.stash[mark_name] = name
    config.addinivalue_line(
        "markers",
        f"{name}(*specs, wait=None, hold_for=None, ttl=None, reason=None, scope='test'): units that the test holds "
        "while it runs, e.g. 'board,arch=arm64', 'psu:2'; all of them or none (holdall)",
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Nothing more is loaded unless a test has needs. Raises UsageError for needs that can't be read."""
    name = config.stash[mark_name]
    if not any(
        item.get_closest_marker(name) is not None or SESSION_FIXTURE in getattr(item, "fixturenames", ())
        for item in items
    ):
        return
    from holdall.client.pytest_plugin.holding import Holding

    holding = Holding(config, name, items)
    config.stash[holding_key] = holding
    config.pluginmanager.register(holding, "holdall-holding")


@pytest.fixture
def lease(request: pytest.FixtureRequest) -> "Lease":
    """The lease of this test: `lease.units["psu"]`, each unit with `name`, `node` and `fence`."""
    holding = request.config.stash.get(holding_key, None)
    held = None if holding is None else holding.lease_of(request.node)
    if held is None:
        name = request.config.stash[mark_name]
        pytest.fail(
            f'the fixture lease is for tests that say what they need: @pytest.mark.{name}("psu:1")',
            pytrace=False,
        )
    return held


@pytest.fixture(scope="session")
def lease_session(request: pytest.FixtureRequest) -> "Lease":
    """The lease of this run (of this worker, with pytest-xdist): what marks with scope="session" name, all together."""
    holding = request.config.stash.get(holding_key, None)
    held = None if holding is None else holding.session_lease
    if held is None:
        name = request.config.stash[mark_name]
        pytest.fail(
            f'no test says what the whole run needs: @pytest.mark.{name}("bench:1", scope="session")',
            pytrace=False,
        )
    return held


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Which tests waited, and for whom; from the reports, so that those of pytest-xdist's workers are in it."""
    waits: dict[str, tuple[float, str]] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            said: dict[str, object] = dict(getattr(report, "user_properties", ()))
            if BLOCKED in said:
                waits[report.nodeid] = (float(str(said.get(WAITED, 0))), str(said[BLOCKED]))
    if not waits:
        return
    whole = sum(waited for waited, _ in waits.values())
    terminalreporter.section(f"holdall: {len(waits)} waited, {whole:.1f} s in all")
    longest = sorted(waits.items(), key=lambda wait: -wait[1][0])
    for nodeid, (waited, blocked) in longest[:SHOWN_MAX]:
        terminalreporter.write_line(f"{waited:8.1f} s  {nodeid}  blocked by {blocked}")
