"""Subjects: `hd.<system>.<to>.<from>`, and what of them a node may use.

The sender is the last token because the broker can then hold each node to its own: a node's rights name the one
value that this token may have. Names never appear here, only ids.
"""

import re

from holdall.model import names

FRAME_BYTES_MAX = names.FRAME_BYTES_MAX

SYSTEM_RE = re.compile(r"[a-z0-9][a-z0-9-]{0,31}\Z")
NODE_RE = re.compile(r"[a-z2-7]{20}\Z")
ALL = "all"
"""In the place of the receiver: what concerns every node. No id of a node has three letters."""


def is_node_id(text: str) -> bool:
    """Whether this can be the id of a node."""
    return NODE_RE.match(text) is not None


def is_system_name(text: str) -> bool:
    """Whether this can name a system in a subject."""
    return SYSTEM_RE.match(text) is not None


def subject(system: str, to: str, sender: str) -> str:
    """Where `sender` publishes what `to` shall read."""
    return f"hd.{system}.{to}.{sender}"


def inbox(system: str, node: str) -> str:
    """All that is for this node."""
    return f"hd.{system}.{node}.*"


def may_publish(system: str, node: str) -> list[str]:
    """The subjects that a node may publish to: to anybody, as itself."""
    return [f"hd.{system}.*.{node}"]


def may_subscribe(system: str, node: str) -> list[str]:
    """The subjects that a node may read: its own, and what concerns all."""
    return [inbox(system, node), inbox(system, ALL)]


def sender_of(text: str, system: str, to: str) -> str | None:
    """The sender's id out of a subject that was received; None when the subject is not of the right shape."""
    head = f"hd.{system}.{to}."
    sender = text[len(head) :]
    return sender if text.startswith(head) and is_node_id(sender) else None


def bucket(system: str) -> str:
    """The key-value bucket of a system, where its servers have JetStream."""
    return f"hd-{system}"


def store_inbox(node: str) -> str:
    """Where the answers of JetStream to this node come."""
    return f"_INBOX.{node}.>"


def may_ask_store(system: str) -> list[str]:
    """What a node publishes to read, write and make the bucket of its system."""
    stream = f"KV_{bucket(system)}"
    asked = ("STREAM.INFO", "STREAM.CREATE", "STREAM.MSG.GET")
    return [*(f"$JS.API.{one}.{stream}" for one in asked), f"$KV.{bucket(system)}.>"]


def needed_elsewhere(system: str, node: str) -> tuple[list[str], list[str]]:
    """What a node publishes and subscribes to on servers of somebody else: as on its own, and the bucket."""
    return [*may_publish(system, node), *may_ask_store(system)], [
        *may_subscribe(system, node),
        store_inbox(node),
    ]
