"""Small questions about TCP ports of this host."""

import asyncio
import contextlib
import socket
import ssl
from pathlib import Path

ANSWER_S = 2.0
_LISTENING = "0A"


def is_free(host: str, port: int) -> bool:
    """Whether a server could listen there now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((host, port))
            trial.listen(1)
        except OSError:
            return False
    return True


async def greets(host: str, port: int, tls: ssl.SSLContext, name: str) -> bool:
    """Whether a nats-server with a certificate for `name` answers there."""
    try:
        async with asyncio.timeout(ANSWER_S):
            reader, writer = await asyncio.open_connection(host, port, ssl=tls, server_hostname=name)
            try:
                return (await reader.readline()).startswith(b"INFO ")
            finally:
                writer.transport.abort()
    except (OSError, TimeoutError, ValueError):
        return False


def find_owner(port: int) -> str:
    """For an error text: by which program and process, where that can be seen; else empty."""
    inodes = {
        fields[9]
        for table in ("/proc/net/tcp", "/proc/net/tcp6")
        for fields in (line.split() for line in _lines(table))
        if len(fields) > 9 and fields[3] == _LISTENING and int(fields[1].rpartition(":")[2], 16) == port
    }
    wanted = {f"socket:[{inode}]" for inode in inodes}
    for folder in Path("/proc").glob("[0-9]*/fd") if wanted else ():
        with contextlib.suppress(OSError):
            for link in folder.iterdir():
                if str(link.readlink()) in wanted:
                    name = (folder.parent / "comm").read_text(encoding="utf-8", errors="replace").strip()
                    return f" by {name} (process {folder.parent.name})"
    return ""


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="ascii").splitlines()[1:]
    except OSError:
        return []
