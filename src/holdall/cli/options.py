"""Options that many commands share, and how a command finds its node."""

import os
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
        help="The node, e.g. unix:///run/holdall/holdall.sock. Default: HOLDALL_URL, "
        "a system node, this user's node.",
    ),
]


def converse(url: str) -> Conversation:
    """A conversation with the node that `--url`, HOLDALL_URL or the usual places name."""
    from holdall.client.address import find_socket

    return Conversation(str(find_socket(url or None)))


def own_key(key: str) -> str:
    """The key given, else the one this process inherited."""
    key = key or os.environ.get("HOLDALL_LEASE", "")
    if not key:
        raise BadSpec(
            "which lease? Give its key or printed id, or run this inside `holdall run` (HOLDALL_LEASE)."
        )
    return key
