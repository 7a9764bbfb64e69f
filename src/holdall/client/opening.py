"""From an address to an open link, on this host or over HTTPS; shared by both faces and the command line, and free of asyncio."""

import os

from holdall.client.address import find_node
from holdall.client.link import Link
from holdall.client.recorder import client_name, open_recorder
from holdall.client.session import Role


def open_link(
    url: str | None, *, agent: str, history: str | os.PathLike[str] | None, role: Role = "client"
) -> Link:
    """An open link to the node that `url` or the usual places name."""
    link = Link(find_node(url), role=role, agent=agent, recorder=open_recorder(history, client_name(agent)))
    try:
        link.open()
    except BaseException:
        link.recorder.close()
        raise
    return link
