"""Refusals of outside data about terms: each reason has a code of its own, and says what would do."""

from holdall.model.errors import BadSpec


class Refusal(BadSpec):
    """Something that was sent from outside can't be taken; nothing was changed by it.

    `reason` is the code that programs compare (`quantity.zero`, `json.duplicate_key`), `where` the term or field it is
    about, "" for the whole.
    """

    def __init__(self, reason: str, text: str, *, where: str = "") -> None:
        super().__init__(f"{where}: {text}" if where else text)
        self.reason = reason
        self.where = where
