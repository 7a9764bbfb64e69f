"""What `holdall doctor` looks at when the node is on another host: the way there, the access token, and what the node finds."""

import contextlib
import ssl
import time
from collections.abc import Iterator

import msgspec

from holdall.client.conversation import Conversation
from holdall.client.doctor_bus import SHOWN_MAX, WARN_S
from holdall.client.finding import Finding
from holdall.client.http_socket import ask_http
from holdall.guardian.remote import open_connection
from holdall.model.errors import HoldallError


def remote_findings(url: str, version: str) -> Iterator[Finding]:
    """In the order in which a person would mend them; what can't be reached ends them."""
    try:
        yield from _connection(url)
        me = ask_http(url, "GET", "/v1/me")
    except HoldallError as problem:
        yield Finding("connection", "error", problem.text)
        return
    yield _token(url, me)
    if me["version"] != version:
        text = f"the node runs {me['version']}, this command is {version}: install the same release on both"
        yield Finding("version", "warning", text)
    else:
        yield Finding("version", "ok", version)
    yield from _there(url, str(me["node"]))


def _connection(url: str) -> Iterator[Finding]:
    made, _ = open_connection(url)
    with contextlib.closing(made):
        if not isinstance(made, ssl.SSLSocket):
            yield Finding("connection", "ok", f"{url}, not encrypted, on this host")
            return
        certificate = made.getpeercert() or {}
        spoken = made.version()
    ends_s = ssl.cert_time_to_seconds(str(certificate.get("notAfter", "Jan  1 00:00:00 2100 GMT")))
    day = time.strftime("%Y-%m-%d", time.gmtime(ends_s))
    text = f"{url}, {spoken}, certificate trusted, good until {day}"
    if ends_s - time.time() < WARN_S:
        yield Finding("connection", "warning", f"{text}: tell the node's administrator, [http] certificate")
    else:
        yield Finding("connection", "ok", text)


def _token(url: str, me: dict[str, object]) -> Finding:
    try:
        with Conversation(url):
            pass
    except HoldallError as problem:
        return Finding("token", "error", problem.text)
    return Finding("token", "ok", f"lets this command act as {me['user']} at {me['node']}")


def _there(url: str, node: str) -> Iterator[Finding]:
    try:
        told = ask_http(url, "GET", "/v1/doctor")["findings"]
        findings = msgspec.convert(told, list[Finding])
    except (HoldallError, msgspec.ValidationError) as problem:
        yield Finding(f"{node}", "error", f"its own doctor does not answer: {problem}")
        return
    for one in findings[: 10 * SHOWN_MAX]:
        yield msgspec.structs.replace(one, about=f"{node} {one.about}")
