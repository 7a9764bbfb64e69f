"""Nothing is encoded here."""

from typing import Any


class Encoder:
    """Can be made, as modules make theirs when they are loaded."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __class_getitem__(cls, _: object) -> Any:
        return cls

    def encode(self, *_: object) -> bytes:
        """Refused."""
        raise NotImplementedError("plain structs are not encoded: use msgspec itself, with CPython")

    decode = encode


Decoder = Encoder


def encode(*_: object, **__: object) -> bytes:
    """Refused."""
    raise NotImplementedError("plain structs are not encoded: use msgspec itself, with CPython")


decode = encode
