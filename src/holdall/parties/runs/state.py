"""What both sides of commands on other nodes share: settings, the neighbours, and the effects of the turn."""

import msgspec

from holdall.machine.contract import Address, Effect, Send
from holdall.model.frames import FromNode
from holdall.parties.messages import SESSION
from holdall.parties.neighbours import Neighbours
from holdall.parties.runs.messages import COMMANDS, JobOrder


class RunSettings(msgspec.Struct, frozen=True):
    """What the part `runs` is told at construction."""

    node: str
    """The node's id,"""
    name: str = ""
    """and what people call it; empty: its id."""
    uid: int = 0
    """The user that the node runs as."""
    run_from: tuple[str, ...] = ()
    """Who may start commands here: `NODE`, `USER@NODE`, with `*` for any node or user."""
    config: str = ""
    """The file that says so, for texts."""
    ttl_max_ms: int = 300_000
    rho_ppm: int = 20_000


class Runs:
    """Shared by `Calling` and `Serving`."""

    def __init__(self, settings: RunSettings, neighbours: Neighbours, incarnation: int) -> None:
        self.settings = settings
        self.neighbours = neighbours
        self.incarnation = incarnation
        self.out: list[Effect] = []

    @property
    def name(self) -> str:
        """What people call this node."""
        return self.settings.name or self.settings.node

    def tell(self, connection: str, frame: FromNode) -> None:
        """To a client; dropped by the driver when that is gone."""
        self.out.append(Send(Address(self.settings.node, SESSION + connection), frame))

    def order(self, order: JobOrder) -> None:
        """To the driver's part that has the processes."""
        self.out.append(Send(Address(self.settings.node, COMMANDS), order))
