"""Options that many commands share, and how a command finds its node."""

import os
import sys
from typing import Annotated

import typer

from holdall.client.conversation import Conversation
from holdall.model.errors import BadSpec

Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, with its version in `v`.")]
Url = Annotated[
    str,
    typer.Option(
        "--url",
        metavar="URL",
        help="The node, e.g. unix:///run/holdall/holdall.sock, or https://HOST:PORT with HOLDALL_ACCESS_TOKEN. "
        "Default: HOLDALL_URL, a system node, this user's node.",
    ),
]

Local = Annotated[
    bool, typer.Option("--local", help="Only what the node that answers knows by itself; no other is asked.")
]
OfNode = Annotated[str, typer.Option("--node", metavar="NAME", help="Only this node of the system.")]

HOUR_MS = 3_600_000
"""How long a command waits that nobody watches, where neither it nor the node's configuration says."""
BOUNDED_NOTE = "waiting at most 1 h, as standard input is no terminal; say --wait to choose"


def read_wait(wait: str, *, now: bool) -> int | None:
    """`--wait` in milliseconds; None: no limit, or nothing said. Raises BadSpec, for --now beside it, too."""
    from holdall.model.durations import parse_duration

    if wait and now:
        raise BadSpec("--now does not wait, so --wait has no meaning beside it. Leave one of them out.")
    return parse_duration(wait, what="--wait") if wait else None


def is_patient() -> bool:
    """Somebody sits at a terminal: waiting needs no limit."""
    return sys.stdin is not None and sys.stdin.isatty()


def converse(url: str) -> Conversation:
    """A conversation with the node that `--url`, HOLDALL_URL or the usual places name."""
    from holdall.client.address import find_node

    return Conversation(find_node(url or None))


def own_key(key: str) -> str:
    """The key given, else the one this process inherited."""
    key = key or os.environ.get("HOLDALL_LEASE", "")
    if not key:
        raise BadSpec(
            "which lease? Give its key or printed id, or run this inside `holdall run` (HOLDALL_LEASE)."
        )
    return key
