"""Nothing is encoded here."""

from typing import Any

from .errors import EncodeError


def encode(*_: object, **__: object) -> Any:
    """Refused. Raises EncodeError."""
    raise EncodeError("plain structs are not encoded: use msgspec itself, with CPython")


decode = encode


class Encoder:
    """Can be made, as modules make theirs when they are loaded; refuses all."""

    encode = decode = staticmethod(encode)

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __class_getitem__(cls, _: object) -> Any:
        return cls


Decoder = Encoder
