"""One question about locations after the other, over a blocking conversation: what the command line needs."""

from typing import TypeVar

import msgspec

from holdall.client.conversation import Conversation
from holdall.client.location_words import wait_ms_of
from holdall.model import frames
from holdall.model import location_frames as f
from holdall.model.errors import Unreachable

Answer = TypeVar("Answer", bound=f.ToClient)


class LocationTalk:
    """Over a conversation, which stays its owner's."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation

    def ask(self, question: f.FromClient) -> f.ToClient:
        """The answer, whichever it is. Raises NeverSatisfiable (no such location), Unreachable, BadSpec, Refused."""
        body = f.pack(question)
        patient = wait_ms_of(question) > 0
        answer = self._conversation.ask(frames.Negotiate(self._conversation.number(), body), patient=patient)
        if not isinstance(answer, frames.Negotiated):
            raise self._unexpected(type(answer).__name__)
        try:
            return f.read_answer(answer.body)
        except msgspec.DecodeError as error:
            raise self._unexpected(str(error)) from error

    def expect(self, question: f.FromClient, kind: type[Answer]) -> Answer:
        """An answer of which there is one kind only."""
        answer = self.ask(question)
        if not isinstance(answer, kind):
            raise self._unexpected(type(answer).__name__)
        return answer

    def _unexpected(self, what: str) -> Unreachable:
        return Unreachable(
            f"{self._conversation.where} gave an unexpected answer ({what}); do client and node have one version?"
        )
