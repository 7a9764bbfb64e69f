"""A command that is run while a negotiated lease is held, and that is held to it: what negotiates for it is this process."""

import contextlib
import os
import signal
from collections.abc import Sequence
from pathlib import Path

from holdall.cli.enforcing import kept_text
from holdall.cli.location_shown import terms_text
from holdall.cli.run_lines import RunLines
from holdall.client.address import url_of
from holdall.client.conversation import Conversation
from holdall.client.location_talk import LocationTalk
from holdall.client.location_words import over
from holdall.client.surroundings import (
    LEASE_FILE_NAME,
    lease_folder,
    negotiated_environment,
    remove_lease_folder,
)
from holdall.client.wishes import default_agent
from holdall.guardian import orders
from holdall.guardian.clock import boottime_ms
from holdall.guardian.enforcement.granted import limits_of, stay_of
from holdall.guardian.grace import negotiated_grace_ms
from holdall.guardian.reaching import is_remote
from holdall.guardian.signals import Signals
from holdall.guardian.vigil import LOSSES, Reason
from holdall.guardian.wrapper import GuardianDied, LastWord, Wrapper
from holdall.model import location_frames as f
from holdall.model.durations import show_duration
from holdall.model.errors import BadSpec, HoldallError, LeaseLost
from holdall.model.frames import HeldUnit, LeaseView
from holdall.model.terms import COMMAND_TERMS, LeaseDocument

DURATION_MS_MIN = 5_000
"""A command needs time to begin, and to be stopped."""
ONLY_NEW = (
    "a command has a lease of its own: under one that is there already another may run, and each would have all that it "
    "grants. Ask anew, without --replaces"
)
_OVER_WITH_LEASE = {reason.value for reason in LOSSES} | {Reason.WRAPPER_SILENT.value}


def check_duration(duration_ms: int) -> None:
    """Raises BadSpec where a lease is too short for a command."""
    if duration_ms < DURATION_MS_MIN:
        raise BadSpec(
            f"{show_duration(duration_ms)} is too short for a command, which needs time to begin and to be stopped. "
            f"Ask for {show_duration(DURATION_MS_MIN)} or more: --duration"
        )


def check_place(terms: Sequence[str], node: Conversation, host: str = "") -> None:
    """A command can be held to these terms only where it runs. `host`: which offers them. Raises BadSpec."""
    bound = " and ".join(name for name in COMMAND_TERMS if name in terms)
    if not bound:
        return
    if is_remote(node.where):
        raise BadSpec(
            f"{bound}: of use on the host of {node.welcome.node} alone, and the command would run here. Run it there"
        )
    if host not in {"", node.welcome.node}:
        raise BadSpec(
            f"{bound}: offered by {host}, and the command would run at {node.welcome.node}. Run it there, or ask anew: "
            "holdall location request LOCATION … -- CMD asks this host alone"
        )


class LocationRun:
    """One offer that is taken for one command; `run` gives the exit status."""

    def __init__(
        self, node: Conversation, offer: LeaseDocument, command: Sequence[str], *, as_json: bool
    ) -> None:
        """Raises BadSpec for an offer that does not do for a command."""
        if offer.revision > 1:
            raise BadSpec(ONLY_NEW)
        check_duration(offer.duration)
        check_place([one.name for one in offer.terms], node, offer.host)
        self._node, self._offer, self._command = node, offer, tuple(command)
        self._lines = RunLines(as_json=as_json)

    def run(self) -> int:
        """Raises NotGranted, LeaseLost and the like where the command was not run."""
        signals = (
            Signals()
        )  # before there is a lease: from now on somebody who interrupts us is heard, and all is given back
        try:
            asked_ms = boottime_ms()
            answer = LocationTalk(self._node).ask(f.AcceptOffer(self._offer.lease, command=True))
            if isinstance(answer, f.Over):
                raise over(answer)
            if not isinstance(answer, f.LeaseIs):
                raise LeaseLost(f"the node does not tell what became of {self._offer.lease}")
            self._lines.leased(answer.document, terms_text(answer.document))
            return self._status(self._guard(answer.document, asked_ms + answer.valid_for_ms, signals))
        finally:
            signals.restore()
            self._lines.close()

    def _guard(self, lease: LeaseDocument, deadline_ms: int, signals: Signals) -> LastWord | OSError:
        folder = lease_folder()
        try:
            view = view_of(lease)
            environment = negotiated_environment(
                os.environb,
                view,
                node_url=url_of(self._node.where),
                lease_file=str(folder / LEASE_FILE_NAME),
            )
            start = self._start(lease, view, deadline_ms, folder)
            return Wrapper(start, self._command, environment, signals=signals, on_report=self._hear).run()
        except OSError as problem:
            if isinstance(problem, HoldallError):
                raise
            return problem
        finally:
            remove_lease_folder(folder)

    def _start(self, lease: LeaseDocument, view: LeaseView, deadline_ms: int, folder: Path) -> orders.Start:
        before = lease.before_end
        return orders.Start(
            key="",
            lease=view,
            node=self._node.where,
            ttl_ms=lease.duration,
            deadline_ms=deadline_ms,
            grace_ms=negotiated_grace_ms(lease.duration),
            agent=default_agent(),
            lease_file=str(folder / LEASE_FILE_NAME),
            limits=limits_of(lease),
            stay_ms=stay_of(lease),
            before_end=None
            if before is None
            else orders.BeforeEnd(before.lead_ms, signal.Signals[f"SIG{before.signal}"]),
            negotiated=lease,
        )

    # ------------------------------------------------------------ what the guardian tells

    def _hear(self, report: orders.FromGuardian) -> None:
        match report:
            case orders.Started(enforced=enforced):
                if text := kept_text(enforced):
                    self._lines.note(text)
            case orders.Regranted(limits, stay_ms, enforced):
                amounts = limits.asked() | ({} if stay_ms is None else {"stay": stay_ms})
                text = " · ".join(f"{name} {amount:,}" for name, amount in amounts.items()) or "nothing"
                kept = kept_text(enforced)
                self._lines.note(f"the renewal grants: {text}" + (f" ({kept})" if kept else ""))
            case orders.Stopping(reason, text):
                if reason not in _OVER_WITH_LEASE:
                    self._lines.note(f"stopping the command: {text}")
            case _:
                pass

    def _status(self, last: LastWord | OSError) -> int:
        name = self._command[0]
        match last:
            case OSError():
                self._give_back()
                self._lines.ended("not-started", f"{name} was not started: {last}. See: holdall doctor")
                return 126
            case GuardianDied():
                self._give_back()
                return self._lost("the process that guarded it was killed, and the command with it")
            case orders.NotStarted():
                status = last.status()
                if status is None and last.code:
                    return self._lost(f"{last.text}, before {name} started")
                self._lines.ended("not-started", f"cannot run {name}: {last.text}")
                return 128 + signal.SIGINT if status is None else status
            case orders.Ended():
                return self._ended(last)

    def _ended(self, last: orders.Ended) -> int:
        if last.before_end:
            self._lines.note(f"before the end: {last.before_end}")
        self._lines.used(last.figures)
        if last.leftovers:
            some = "process that" if last.leftovers == 1 else "processes that"
            self._lines.note(f"ended {last.leftovers} {some} outlived the command")
        if not last.released:
            self._lines.note("the node has not confirmed the release; the lease runs out by itself")
        if last.reason in _OVER_WITH_LEASE:
            return self._lost(last.text)
        if last.exit.signal is not None:
            return 128 + last.exit.signal
        return last.exit.code or 0

    def _lost(self, why: str) -> int:
        self._lines.ended("lost", f"lease {self._offer.lease} lost: {why.rstrip('.')}.")
        return LeaseLost.exit_status

    def _give_back(self) -> None:
        """Nothing of the command is left, and no guardian that could say so. Where the node is silent it runs out."""
        with contextlib.suppress(HoldallError), Conversation(self._node.where) as node:
            LocationTalk(node).ask(f.EndLease(self._offer.lease))


def view_of(lease: LeaseDocument) -> LeaseView:
    """A negotiated lease as a command's surroundings show leases."""
    return LeaseView(
        lease=lease.lease,
        holder=lease.holder,
        user=lease.holder.partition("@")[0],
        pid=os.getpid(),
        reason="",
        state=lease.state,
        units=tuple(
            HeldUnit(term.name, unit.name, unit.node, unit.fence)
            for term in lease.terms
            for unit in term.units
        ),
        needs=(),
        since_ms=0,
        waited_ms=0,
        ttl_ms=lease.duration,
        until_ms=None,
        expires_ms=0,
        renewing=True,
        node=lease.host,
    )
