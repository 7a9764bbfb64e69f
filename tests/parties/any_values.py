"""Any value that a message of some type can carry, for tests of what others may send."""

from collections.abc import Callable, Sequence

from hypothesis import strategies as st
from msgspec import inspect

Integers = Callable[[inspect.IntType], st.SearchStrategy[int]]
Structs = Callable[[inspect.StructType, dict[str, st.SearchStrategy[object]]], st.SearchStrategy[object]]
"""Builds a struct from what its fields may be."""


class AnyValues:
    """How texts, numbers and structs are drawn; everything else follows from the types."""

    def __init__(
        self, *, words: st.SearchStrategy[str], integers: Integers, structs: Structs, at_most: int
    ) -> None:
        """`at_most`: members of a sequence or a mapping."""
        self._words, self._integers, self._structs, self._at_most = words, integers, structs, at_most

    def of(self, kind: inspect.Type) -> st.SearchStrategy[object]:
        """Any value of this type."""
        match kind:
            case inspect.IntType():
                return self._integers(kind)
            case inspect.StrType():
                return self._words
            case inspect.BoolType():
                return st.booleans()
            case inspect.NoneType():
                return st.none()
            case inspect.LiteralType(values=values):
                return st.sampled_from(list(values))
            case inspect.UnionType(types=types):
                return self.one_of(types)
            case inspect.VarTupleType(item_type=item):
                return st.lists(self.of(item), max_size=self._at_most).map(tuple)
            case inspect.TupleType(item_types=items):
                return st.tuples(*map(self.of, items))
            case inspect.DictType(key_type=key, value_type=value):
                return st.dictionaries(self.of(key), self.of(value), max_size=self._at_most)
            case inspect.StructType(fields=fields):
                return self._structs(kind, {field.name: self.of(field.type) for field in fields})
            case _:
                raise AssertionError(f"{kind} is new in these messages: tell how to draw it")

    def one_of(self, types: Sequence[inspect.Type]) -> st.SearchStrategy[object]:
        """Any value of one of these types."""
        return st.one_of(*map(self.of, types))
