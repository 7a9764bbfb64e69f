"""What both drawings of a trace have in common: who takes part, and how a message is told in a few words."""

import msgspec

from holdall.leases.messages import MANAGER
from holdall.machine.codec import CODEC, CodecError
from holdall.machine.contract import Address, Message
from holdall.machine.link_frames import LinkFrame, LinkOpen, Parcel
from holdall.machine.trace import Step

_SKIPPED = ("claim", "attempt", "terms", "need", "units", "before", "stamp")
"""Fields that would make a line too long."""


def hosts_of(steps: list[Step]) -> tuple[str, ...]:
    """All hosts that act: nodes with a manager to the left, then those that only ask."""
    acting = {step.host for step in steps}
    managers = {
        to.node for step in steps for _, to, message in step.turn.sends if MANAGER in _parts(to, message)
    }
    return tuple(sorted(acting, key=lambda host: (host not in managers, host)))


def _parts(to: Address, message: Message) -> set[str]:
    """The parts that a send is for, behind the link or not."""
    return {parcel.to for parcel in message.parcels} if isinstance(message, LinkFrame) else {to.part}


def texts_of(message: Message) -> list[str]:
    """A message between hosts, line by line: one for each parcel of a frame."""
    match message:
        case LinkOpen(mine, yours):
            return [f"open {mine} to {yours or 'anybody'}"]
        case LinkFrame(seq=0):
            return [f"ack {message.ack}"]
        case LinkFrame():
            texts = [f"[{message.seq}] {_of_parcel(parcel)}" for parcel in message.parcels]
            if message.ack:
                texts[-1:] = [f"{text}, ack {message.ack}" for text in texts[-1:]]
            return texts
        case _:
            return [told(message)]


def _of_parcel(parcel: Parcel) -> str:
    try:
        return told(CODEC.decode(parcel.body))
    except CodecError:
        return f"{len(parcel.body)} bytes for {parcel.to} that nobody can read"


def envelope_of(sender: Address, to: Address, message: Message) -> object:
    """What tells one message from all others, as far as a trace does."""
    return (sender, to, type(message).__name__, msgspec.json.encode(message))


def told(message: Message) -> str:
    """Kind, claim with attempt, and the short fields."""
    claim = getattr(message, "claim", None)
    attempt = getattr(message, "attempt", 1)
    words = [type(message).__name__]
    if claim is not None:
        words.append(f"{claim}" if attempt == 1 else f"{claim}#{attempt}")
    for name in message.__struct_fields__:
        value = getattr(message, name)
        if name not in _SKIPPED and isinstance(value, int | str) and value not in {"", 0, 1}:
            words.append(f"{name}={value}"[:40])
    return " ".join(words)
