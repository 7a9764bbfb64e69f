"""Claims before a test, gives back after it, and lets nothing in between go on without the lease."""

import contextlib
import os
import time
from collections.abc import Callable, Generator, Sequence

import pytest

from holdall.client import scope, sync
from holdall.client.blockers import blocked_by
from holdall.client.pytest_plugin.said import BLOCKED, LEASE, SESSION_FIXTURE, SESSION_LEASE, WAITED
from holdall.client.pytest_plugin.wishes import Wish, joined, read_marks, session_wish
from holdall.model.durations import parse_duration
from holdall.model.errors import (
    BadSpec,
    HoldallError,
    NeverSatisfiable,
    NotHolder,
    Unreachable,
    WouldDeadlock,
)
from holdall.model.why import Why

REASON_MAX = 200
WORKER_ENV = "PYTEST_XDIST_WORKER"


class Taken:
    """What became of one claim: a lease, or the trouble."""

    def __init__(self) -> None:
        self.lease: sync.Lease | None = None
        self.trouble: HoldallError | None = None
        self.waited_s = 0.0
        self.blocked = ""
        self.outer: str | None = None
        """What HOLDALL_LEASE was before."""


class Holding:
    """The leases of one process of pytest: a worker of pytest-xdist is a party of its own.

    A test's claim is made before its set-up begins, so that no duration and no time limit counts the wait. Where a
    `skipif` may yet skip the test, it is made in the set-up, after those were asked, and taken off its duration.
    """

    def __init__(self, config: pytest.Config, mark: str, items: Sequence[pytest.Item]) -> None:
        self._config = config
        self._wait = config.getoption("--holdall-wait") or str(config.getini("holdall_wait"))
        self._missing = config.getoption("--holdall-missing") or str(config.getini("holdall_missing"))
        if self._missing not in {"fail", "skip"}:
            raise pytest.UsageError(f"holdall_missing = {self._missing}: write fail or skip")
        try:
            parse_duration(self._wait, what="--holdall-wait")
        except BadSpec as problem:
            raise pytest.UsageError(str(problem)) from problem
        self._worker = os.environ.get(WORKER_ENV, "")
        self._inherited = os.environ.get(scope.LEASE_ENV)
        self._wishes: dict[str, Wish] = {}
        self._of_session: set[str] = set()
        for_session: list[Wish] = []
        for item in items:
            marks = read_marks(item, mark)
            wish = joined([one.wish for one in marks if one.scope == "test"])
            session = [one.wish for one in marks if one.scope == "session"]
            for_session += session
            if wish is not None:
                self._wishes[item.nodeid] = wish
            if session or SESSION_FIXTURE in getattr(item, "fixturenames", ()):
                self._of_session.add(item.nodeid)
        self._session_wish = session_wish(for_session)
        self._hub: sync.Hub | None = None
        self._session: Taken | None = None
        self._test: Taken | None = None

    @property
    def session_lease(self) -> sync.Lease | None:
        return None if self._session is None else self._session.lease

    def lease_of(self, item: pytest.Item) -> sync.Lease | None:
        """The lease of the test that runs; None when its marks ask for none."""
        return self._test.lease if self._test is not None and item.nodeid in self._wishes else None

    # ------------------------------------------------------------ the course of a test

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Outside of what is measured: claim, all phases of the test, give back."""
        try:
            if self._concerns(item) and not _may_yet_be_skipped(item):
                self._take_all(item)
            return (yield)
        finally:
            test, self._test = self._test, None
            if test is not None:
                self._give_back(test)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, None, None]:
        with self._held():
            return (yield)

    @pytest.hookimpl(specname="pytest_runtest_setup")
    def pytest_claimed_or_not(self, item: pytest.Item) -> None:
        """After marks that skip were asked, before fixtures are set up."""
        if self._concerns(item) and _may_yet_be_skipped(item) and self._test is None:  # not again in a rerun
            self._take_all(item)
        for taken in (self._session if item.nodeid in self._of_session else None, self._test):
            if taken is not None and taken.trouble is not None:
                self._tell(taken.trouble)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, None, None]:
        with self._held():
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if call.when == "setup" and _may_yet_be_skipped(item) and self._test is not None:
            report.duration = max(report.duration - self._test.waited_s, 0.0)
        return report

    def pytest_sessionfinish(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            self._give_back(session)
        if self._hub is not None:
            self._hub.close()

    # ------------------------------------------------------------ claiming

    def _concerns(self, item: pytest.Item) -> bool:
        if item.get_closest_marker("skip") is not None or getattr(self._config.option, "setupplan", False):
            return False
        return item.nodeid in self._wishes or item.nodeid in self._of_session

    def _take_all(self, item: pytest.Item) -> None:
        """The session's first: what a test needs beside it may not be waited for in its possession."""
        if item.nodeid in self._of_session and self._session_wish is not None:
            if self._session is None:
                self._session = self._take(item, self._session_wish, reason="pytest session")
                self._note(item, self._session, SESSION_LEASE)
            elif self._session.lease is not None:
                item.user_properties.append((SESSION_LEASE, self._session.lease.id))
            if self._session.trouble is not None:
                return
        wish = self._wishes.get(item.nodeid)
        if wish is not None:
            self._test = self._take(item, wish, reason=item.nodeid)
            self._note(item, self._test, LEASE)

    def _take(self, item: pytest.Item, wish: Wish, *, reason: str) -> Taken:
        taken = Taken()
        told = False

        def on_wait(why: Why) -> None:
            nonlocal told
            taken.blocked = blocked_by(why) or taken.blocked
            if not told and taken.blocked:
                told = True
                self._say(f"{item.nodeid} waits, blocked by {taken.blocked}")

        begun = time.monotonic()
        path, line, _ = item.location
        named = scope.site.set(f"{path}:{(line or 0) + 1}")
        try:
            taken.lease = self._claim(wish, wish.reason or reason[-REASON_MAX:], on_wait)
            self._refuse_shared(taken)
        except HoldallError as trouble:
            taken.trouble = trouble
            if trouble.why is not None:
                taken.blocked = blocked_by(trouble.why) or taken.blocked
        finally:
            scope.site.reset(named)
            taken.waited_s = time.monotonic() - begun
        if taken.lease is not None:
            taken.outer = os.environ.get(scope.LEASE_ENV)
            os.environ[scope.LEASE_ENV] = taken.lease.key  # children of the test count as the same holder
        return taken

    def _claim(self, wish: Wish, reason: str, on_wait: Callable[[Why], None]) -> sync.Lease:
        """In the possession of another lease, what that one does not cover is had now or not at all."""
        hub = self._open_hub()
        wait = self._wait if wish.wait is None else wish.wait
        try:
            return hub.lease(
                *wish.needs,
                wait=wait,
                hold_for=wish.hold_for,
                ttl=wish.ttl,
                reason=reason,
                on_wait=on_wait,
            )
        except WouldDeadlock:
            lease = hub.try_lease(*wish.needs, hold_for=wish.hold_for, ttl=wish.ttl, reason=reason)
            if lease is None:
                raise
            return lease

    def _refuse_shared(self, taken: Taken) -> None:
        """All workers inherit the lease around pytest: each would take the same unit for its own."""
        lease = taken.lease
        if (
            lease is None
            or not self._worker
            or not lease.is_view
            or os.environ.get(scope.LEASE_ENV) != self._inherited
        ):
            return
        taken.lease = None
        raise NotHolder(
            f"pytest runs inside lease {lease.id}, which covers what this test needs, but pytest-xdist's workers would "
            "all use its units at the same time. Run without -n, or start pytest outside of that lease."
        )

    def _give_back(self, taken: Taken) -> None:
        if taken.lease is None:
            return
        if taken.outer is None:
            os.environ.pop(scope.LEASE_ENV, None)
        else:
            os.environ[scope.LEASE_ENV] = taken.outer
        with contextlib.suppress(HoldallError):  # then it ends by itself
            taken.lease.release()

    def _open_hub(self) -> sync.Hub:
        if self._hub is None:
            agent = os.environ.get("HOLDALL_AGENT") or "pytest"
            hub = sync.connect(agent=f"{agent}-{self._worker}" if self._worker else agent)
            self._hub = hub.open()
        return self._hub

    @contextlib.contextmanager
    def _held(self) -> Generator[None]:
        """What runs now is stopped, and fails, when a lease is lost."""
        with contextlib.ExitStack() as stretches:
            for taken in (self._session, self._test):
                if taken is not None and taken.lease is not None:
                    stretches.enter_context(taken.lease.stretch())
            yield

    # ------------------------------------------------------------ telling

    def _tell(self, trouble: HoldallError) -> None:
        """Raises: the test is skipped where nobody has what it needs and the run says so, else fails."""
        if self._missing == "skip" and isinstance(trouble, (NeverSatisfiable, Unreachable)):
            pytest.skip(f"holdall: {trouble}")
        pytest.fail(f"holdall: {trouble}", pytrace=False)

    def _note(self, item: pytest.Item, taken: Taken, name: str) -> None:
        """For JUnit's file, and for the end of the run."""
        if taken.lease is not None:
            units = (f"{unit.name}@{unit.node} fence {unit.fence}" for unit in taken.lease.info.units)
            item.user_properties += [(name, taken.lease.id), (f"{name}_units", ", ".join(units))]
        item.user_properties.append((WAITED, f"{taken.waited_s:.3f}"))
        if taken.blocked:
            item.user_properties.append((BLOCKED, taken.blocked))

    def _say(self, line: str) -> None:
        """To the person in front of it; workers of pytest-xdist have nobody."""
        plugins = self._config.pluginmanager
        reporter, capture = plugins.get_plugin("terminalreporter"), plugins.get_plugin("capturemanager")
        if not isinstance(reporter, pytest.TerminalReporter) or self._worker or reporter.verbosity < 0:
            return
        shown = contextlib.nullcontext() if capture is None else capture.global_and_fixture_disabled()
        with shown:
            reporter.ensure_newline()
            reporter.write_line(f"holdall: {line}")


def _may_yet_be_skipped(item: pytest.Item) -> bool:
    return item.get_closest_marker("skipif") is not None
