"""States of the printed lanes that are alike but for indices and rounds that only grow. Lab only."""

import msgspec

from holdall.protocols.literal.lanes import Bids, PoolState
from holdall.protocols.literal.lanes_messages import Accept, Reject, Reply, Reserve, Write


def lowered(value: msgspec.Struct, by: int) -> msgspec.Struct:
    """A state or message of the printed lanes with all its indices lowered and rounds left out."""
    match value:
        case PoolState():
            lanes = tuple(msgspec.structs.replace(lane, index=lane.index - by) for lane in value.lanes)
            written = tuple(index - by for index in value.written)
            return msgspec.structs.replace(value, pp=value.pp - by, lanes=lanes, written=written)
        case Bids():
            bids = tuple(
                msgspec.structs.replace(
                    bid,
                    round=0,
                    index=bid.index - by if bid.step == "reserved" else 0,
                    replies=tuple(index - by for index in bid.replies),
                )
                for bid in value.bids
            )
            return msgspec.structs.replace(value, bids=bids)
        case Reply() | Reserve() | Accept() | Reject() | Write():
            return msgspec.structs.replace(value, index=value.index - by)
        case _:
            return value
