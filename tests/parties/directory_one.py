"""One directory spoken to by hand: what it is told, and what it answers."""

import msgspec
from parties.directory_net import Pools

from holdall.machine.contract import Address, Effect, Message, Received, Send
from holdall.parties.directory.machine import Directory
from holdall.parties.directory.messages import (
    DIRECTORY,
    Difference,
    DirectorySettings,
    Header,
    Line,
    Page,
    Row,
    Tell,
)
from holdall.parties.neighbours import PoolNews

GPU = PoolNews("gpu", "gpu", total=4, free=4)
PSU = PoolNews("psu{v=24}", "psu", (("v", "24"),), total=2, free=1, waiting=3, reach="host", prepares=True)
PEER = Address("lab-2", DIRECTORY)
HEADER = Header("lab-2", "b", "x", 7, 3, epoch=2, since_ms=9, address="10.0.0.2:1", initial=2)
GPU_LINE = Line(1, "gpu", total=4, free=4)
PSU_LINE = Line(2, "psu", (("v", "24"),), 2, 1, 3, host=True, prepares=True)
PAGE = Page(HEADER, 5, 0, 2, (GPU_LINE, PSU_LINE))


def serving(*pools: PoolNews, **fields: object) -> Directory:
    settings = DirectorySettings(node="lab-1", name="a", instance="i", started_wall_ms=5)
    made = Directory(msgspec.structs.replace(settings, **fields), Pools(*pools), incarnation=4)
    made.start()
    return made


def tell(made: Directory, *pages: Page, peer: Address = PEER) -> list[Message]:
    return messages(made.handle(Received(peer, Tell(pages))), peer)


def messages(effects: list[Effect], to: Address = PEER) -> list[Message]:
    return [effect.message for effect in effects if isinstance(effect, Send) and effect.to == to]


def changes(effects: list[Effect]) -> list[Message]:
    return messages(effects, Address("lab-1", "agent"))


def own_row(made: Directory) -> Row:
    """What it would say of itself; it says nothing before somebody asks."""
    made.handle(Received(PEER, Difference()))
    row = made.state.own.row()
    assert row is not None
    return row
