"""What `holdall doctor` finds: what could keep a node from working, each with the next step."""

import contextlib
import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from holdall.client.address import URL_ENV, find_node
from holdall.client.conversation import Conversation
from holdall.client.doctor_bus import SHOWN_MAX, bus_findings, peer_findings
from holdall.client.doctor_remote import remote_findings
from holdall.client.finding import Finding
from holdall.guardian.reaching import is_remote
from holdall.model import frames
from holdall.model.durations import show_duration
from holdall.model.errors import HoldallError

if TYPE_CHECKING:
    from holdall.node.configured import Settings

DISK_BYTES_MIN = 64 << 20
CLOCK_STEP_SECONDS_MAX = 1.0
RATE_SECONDS = 0.2
RATE_OFF_MAX = 0.01
OLDEST_PLAUSIBLE_SECONDS = 1_764_000_000
"""Late 2025: no host that runs this has an earlier clock, unless the clock is wrong."""


def examine(config: Path | None, url: str) -> list[Finding]:
    """All findings, in the order in which a person would mend them. Of a node on another host: this host's, and those there."""
    from importlib.metadata import version

    findings = [_clock(), _rate(), _system(), _enforcement()]
    named = url or os.environ.get(URL_ENV, "")
    if is_remote(named):
        return [*findings, *remote_findings(named, version("holdall"))]
    settings_finding, settings = _configuration(config)
    findings.append(settings_finding)
    if settings is not None:
        findings += _state_folder(settings.state)
    findings += _node(url, settings, version("holdall"))
    if settings is not None:
        findings += bus_findings(settings, runs=_is_asked(url, settings))
    with contextlib.suppress(HoldallError):
        findings += peer_findings(_ask(url), version("holdall"))
        findings += _units(_ask(url, "pools"))
    return findings


def _clock() -> Finding:
    if time.time() < OLDEST_PLAUSIBLE_SECONDS:
        return Finding(
            "clock", "error", "the wall clock is years behind; set it (a node does not grant before)"
        )
    wall, boot = time.time(), time.clock_gettime(time.CLOCK_BOOTTIME)
    drift = abs((time.time() - wall) - (time.clock_gettime(time.CLOCK_BOOTTIME) - boot))
    if drift > CLOCK_STEP_SECONDS_MAX:
        return Finding(
            "clock",
            "warning",
            f"the wall clock jumped by {drift:.1f} s just now; expiry is not touched by it",
        )
    return Finding("clock", "ok", "wall clock plausible; CLOCK_BOOTTIME counts suspension")


def _rate() -> Finding:
    """Leases are safe as long as any two clocks' rates differ by at most 2 %; a clock that is set right can be slewed."""
    raw, boot = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW), time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    time.sleep(RATE_SECONDS)
    raw = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW) - raw
    off = abs(time.clock_gettime_ns(time.CLOCK_BOOTTIME) - boot - raw) / max(raw, 1)
    if off > RATE_OFF_MAX:
        text = f"this host's clock is being slewed by {off:.1%}; 2 % between two hosts is what leases are safe for. Look at its time service"
        return Finding("clock rate", "error", text)
    return Finding("clock rate", "ok", f"within {RATE_OFF_MAX:.0%} of the hardware's")


def _system() -> Finding:
    if not hasattr(os, "pidfd_open"):
        return Finding("kernel", "warning", "no pidfd: a holder's death is noticed through /proc instead")
    return Finding("kernel", "ok", f"Linux {os.uname().release}, pidfd")


def _enforcement() -> Finding:
    """How commands are ended and held to limits here: what was tried, from the best means down."""
    from holdall.guardian.enforcement.figures import TERMS
    from holdall.guardian.enforcement.ladder import probe

    rungs = probe()
    killers = [rung.name for rung in rungs if rung.kills]
    texts = [f"commands are ended by {killers[0] if killers else 'KILL until nobody is left'}"]
    for term in TERMS:
        best = next(rung for rung in rungs if term in rung.keeps)
        texts.append(f"{term}: {best.keeps[term]} ({best.name})")
    missing = [f"{rung.name}: {rung.why_not}" for rung in rungs if not rung.there]
    return Finding("limits", "ok", "; ".join([*texts, *missing]))


def _configuration(config: Path | None) -> tuple[Finding, "Settings | None"]:
    from holdall.node.settings import load_settings

    try:
        settings = load_settings(config)
    except HoldallError as problem:
        return Finding("config", "error", problem.text), None
    pools = len(settings.pools)
    text = f"{settings.source or 'no file: the defaults'}: node {settings.name}, pools: {pools}"
    if pools == 0:
        return Finding(
            "config", "warning", text + ". Add a [[pool]], or let holdall init find some"
        ), settings
    return Finding("config", "ok", text), settings


def _ask(url: str, what: Literal["node", "pools"] = "node") -> frames.Listing:
    with Conversation(find_node(url or None)) as node:
        return node.listing(frames.Ask(n=node.number(), what=what, local=what == "pools"))


def _units(pools: frames.Listing) -> list[Finding]:
    """Units that the node keeps back until somebody has looked at them."""
    kept = [
        (f"{pool.pool}/{unit.unit}", unit.note)
        for pool in pools.pools
        for unit in pool.units
        if unit.state == "quarantined"
    ]
    return [
        Finding(
            "unit",
            "warning",
            f"{name} is in quarantine{f' ({note})' if note else ''}. Look at it, then: holdall clear {name}",
        )
        for name, note in kept[:SHOWN_MAX]
    ]


def _is_asked(url: str, settings: "Settings") -> bool:
    """Whether the node of this configuration runs."""
    for where in (url, f"unix://{settings.socket}"):
        with contextlib.suppress(HoldallError):
            if _ask(where).nodes[0].node == settings.name:
                return True
    return False


def _elsewhere(settings: "Settings | None") -> Finding | None:
    """No node where commands look: the configured one may run all the same, with a state folder of its own."""
    if settings is None:
        return None
    url = f"unix://{settings.socket}"
    try:
        row = _ask(url).nodes[0]
    except HoldallError:
        return None
    text = (
        f"{row.node} (pid {row.pid}) runs, but commands don't look there. Tell them: export HOLDALL_URL={url}"
    )
    return Finding("node", "warning", text)


def _state_folder(state: Path) -> list[Finding]:
    if not state.exists():
        return [Finding("state", "ok", f"{state} does not exist yet; the first start makes it")]
    findings: list[Finding] = []
    if os.access(state, os.W_OK | os.X_OK):
        findings.append(Finding("state", "ok", f"{state} can be written"))
    else:
        findings.append(
            Finding("state", "error", f"{state} can't be written: give it to this user, or set [node].state")
        )
    free = shutil.disk_usage(state).free
    if free < DISK_BYTES_MIN:
        findings.append(
            Finding(
                "disk",
                "error",
                f"{free >> 20} MiB free below {state}: a node that can't write does not grant",
            )
        )
    else:
        findings.append(Finding("disk", "ok", f"{free >> 30} GiB free below {state}"))
    return findings


def _node(url: str, settings: "Settings | None", version: str) -> list[Finding]:
    try:
        row = _ask(url).nodes[0]
    except HoldallError as problem:
        return [_elsewhere(settings) or Finding("node", "warning", problem.text)]
    findings: list[Finding] = []
    if row.state == "quarantine":
        text = f"{row.node} is in quarantine after a restart: it grants in {show_duration(row.quarantine_ms)}"
        findings.append(
            Finding("node", "warning", text + "; --new ends it where no lease of this host can be alive")
        )
    elif row.state == "draining":
        findings.append(
            Finding("node", "warning", f"{row.node} is draining. Grant again: holdall drain --end")
        )
    else:
        findings.append(
            Finding("node", "ok", f"{row.node} (pid {row.pid}) serves units: {row.units}, pools: {row.pools}")
        )
    if row.version != version:
        findings.append(
            Finding(
                "version",
                "warning",
                f"the node runs {row.version}, this command is {version}: restart the node",
            )
        )
    else:
        findings.append(Finding("version", "ok", version))
    return findings
