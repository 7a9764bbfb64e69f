"""A twin of any value, machines included, in which some values stand in place of others."""

import io
import pickle
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

T = TypeVar("T")


def twin(value: T, instead: Callable[[Any], Any]) -> T:
    """`instead` is asked about every value within: what stands in its place, or None when it stays (as a copy).

    Code (classes and functions) is shared with the original.
    """
    file, kept = io.BytesIO(), list[Any]()
    _Writer(file, instead, kept).dump(value)
    file.seek(0)
    made: T = _Reader(file, kept).load()
    return made


class _Writer(pickle.Pickler):
    def __init__(self, file: io.BytesIO, instead: Callable[[Any], Any], kept: list[Any]) -> None:
        super().__init__(file, protocol=5)
        self._instead, self._kept = instead, kept

    def persistent_id(self, obj: Any) -> int | None:
        """The number of what stands in place of this object; None for what is written."""
        if not isinstance(obj, type | FunctionType):
            obj = self._instead(obj)
            if obj is None:
                return None
        self._kept.append(obj)
        return len(self._kept) - 1


class _Reader(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, kept: list[Any]) -> None:
        super().__init__(file)
        self._kept = kept

    def persistent_load(self, pid: Any) -> Any:
        """What was kept under this number."""
        return self._kept[pid]
