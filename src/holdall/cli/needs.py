"""`--need SPEC [--or SPEC]`: alternatives belong to the need before them, which option parsers can't say."""

from collections.abc import Sequence

from holdall.model.errors import BadSpec
from holdall.model.frames import Need
from holdall.model.spec import parse_needs

_JOINT = "|"
"""Joins the alternatives of one need; no SPEC contains it."""


def join_alternatives(arguments: Sequence[str]) -> list[str]:
    """The command line with each `--or SPEC` folded into the `--need` before it.

    Stops at `--`: what follows belongs to the command that is run. Raises BadSpec for an `--or` without need.
    """
    joined: list[str] = []
    last_need = -1
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return [*joined, word, *rest]
        name, equals, value = word.partition("=")
        if name in {"--need", "--or"}:
            if not equals:
                if not rest or rest[0].startswith("--"):
                    raise BadSpec(f"{name} needs a SPEC after it, e.g. {name} gpu:1")
                value = rest.pop(0)
            if name == "--need":
                joined += ["--need", value]
                last_need = len(joined) - 1
            elif last_need < 0:
                raise BadSpec(
                    "--or gives an alternative to a --need; put it after one: --need gpu:1 --or tpu:1"
                )
            else:
                joined[last_need] += _JOINT + value
            continue
        joined.append(word)
    return joined


def read_needs(values: Sequence[str]) -> tuple[Need, ...]:
    """Needs out of `--need` values that `join_alternatives` has prepared."""
    return parse_needs(value.split(_JOINT) for value in values)
