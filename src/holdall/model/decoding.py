"""What msgspec decodes of others, with one kind of error: of bytes that are no UTF-8 and of deep nesting it raises others."""

from collections.abc import Callable
from typing import TypeVar

import msgspec

T = TypeVar("T")


def decoded(decode: Callable[[bytes], T], data: bytes) -> T:
    """What `decode` makes of the bytes. Raises msgspec.DecodeError (incl. ValidationError), and nothing else."""
    try:
        return decode(data)
    except UnicodeDecodeError as problem:
        raise msgspec.DecodeError(str(problem)) from problem
    except RecursionError as problem:
        raise msgspec.DecodeError("nested too deep") from problem
