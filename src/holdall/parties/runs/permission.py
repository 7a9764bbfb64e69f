"""Whose commands a node starts: `[node] run_from`, which is empty unless somebody writes it.

The bus says which node asks, and that node says which of its users. An entry is `NODE` or `USER@NODE`. Without USER it
stands for the user that the asking node runs as (and root there): whoever may use the socket of a system node is not
thereby somebody who may run commands here. NODE is a name, an id, or `*` for every node; USER `*` is every user there.
A name counts only while it is that of one node; an id can't be taken by another.
"""

import re

from holdall.model.names import is_name
from holdall.parties.neighbours import Neighbours

ANY = "*"
_ID_RE = re.compile(r"[a-z2-7]{20}\Z")
_USER_RE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}\Z")


def entry_problem(entry: str) -> str:
    """What is wrong with an entry; empty: nothing."""
    user, at, node = entry.rpartition("@")
    if at and user != ANY and not _USER_RE.match(user):
        return f'"{user[:80]}" is no name of a user'
    if node != ANY and not is_name(node) and not _ID_RE.match(node):
        return f'"{node[:80]}" is no name of a node'
    return ""


def may_run(
    run_from: tuple[str, ...], neighbours: Neighbours, peer: str, user: str, *, is_keeper: bool
) -> bool:
    """Whether this user of that node may start commands here."""
    name = neighbours.name_of(peer)
    names = {peer, ANY}
    same = [one.node for one in neighbours.nodes() if one.name == name]
    if same == [peer] and neighbours.node_named(name) == peer:
        names.add(name)
    for entry in run_from:
        wanted, at, node = entry.rpartition("@")
        if node in names and (wanted in {ANY, user} if at else is_keeper):
            return True
    return False


def entry_for(name: str, user: str, *, is_keeper: bool) -> str:
    """What would have to be written to let them."""
    return name if is_keeper else f"{user}@{name}"
