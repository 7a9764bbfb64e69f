"""Letting one more node in: the code comes from the driver, which has the bus; the agent knows who may ask for it."""

from typing import TypeAlias

import msgspec

from holdall.machine.codec import CODEC
from holdall.machine.contract import Address, Send
from holdall.model import frames
from holdall.model.errors import Refused
from holdall.parties.messages import NODE, Asked
from holdall.parties.state import Session, State


class WantCode(msgspec.Struct, frozen=True, tag="want_code"):
    """Agent to `node`: a fresh join code for this request of this connection."""

    connection: str
    n: int


class CodeGiven(msgspec.Struct, frozen=True, tag="code_given"):
    """The answer, to the agent: the code, or why there is none."""

    connection: str
    n: int
    code: str
    valid_s: int
    why_not: str = ""


InvitationMessage: TypeAlias = WantCode | CodeGiven

CODEC.register("invitations", InvitationMessage)


class Inviting:
    """Passes the request on, and the code back."""

    def __init__(self, state: State) -> None:
        self._state = state

    def invite(self, session: Session, frame: frames.Invite, asked: Asked) -> None:
        """For the node's user only: whoever joins may claim everything."""
        state = self._state
        if asked.uid not in {0, state.settings.uid}:
            text = "a join code is for the user of the node or root."
            state.tell(session.connection, frames.Denied(frame.n, Refused.code, text))
            return
        state.out.append(Send(Address(state.settings.node, NODE), WantCode(session.connection, frame.n)))

    def given(self, message: CodeGiven) -> None:
        """The driver has answered."""
        if message.code:
            answer: frames.FromNode = frames.Invited(message.n, message.code, message.valid_s)
        else:
            answer = frames.Denied(message.n, Refused.code, message.why_not)
        self._state.tell(message.connection, answer)
