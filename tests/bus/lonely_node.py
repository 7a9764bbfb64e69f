"""A node's bus as a process of its own, for tests that kill it: FOLDER PORT. Prints the pid of its nats-server."""

import asyncio
import sys
from pathlib import Path

from bus.nodes import Node


async def main() -> None:
    """Until it is killed."""
    node = Node(Path(sys.argv[1]), "lab-1")
    node.seed_from(Path(sys.argv[1]) / "seed")
    await node.found(int(sys.argv[2]))
    print(node.server_pid, flush=True)
    await asyncio.Event().wait()


asyncio.run(main())
