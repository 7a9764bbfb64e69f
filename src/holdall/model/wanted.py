"""What is asked for, as frames carry it: selectors, needs, and the bounded values that all frames share."""

from typing import Annotated

import msgspec

Text = Annotated[str, msgspec.Meta(max_length=512)]
Number = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class Selector(msgspec.Struct, frozen=True, order=True):
    """One SPEC: `POOL[+POOL…][,KEY=VALUE…][,@NODE][:COUNT|:all]`. count 0 stands for `all`."""

    pools: Annotated[tuple[Annotated[str, msgspec.Meta(max_length=64)], ...], msgspec.Meta(min_length=1)]
    labels: tuple[tuple[Text, Text], ...] = ()
    node: Annotated[str, msgspec.Meta(max_length=64)] = ""
    count: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 1


class Need(msgspec.Struct, frozen=True, order=True):
    """A `--need` and its `--or` alternatives, preferred first."""

    options: tuple[Selector, ...]
