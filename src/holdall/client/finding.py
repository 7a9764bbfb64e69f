"""One thing that `holdall doctor` has looked at."""

from typing import Literal

import msgspec


class Finding(msgspec.Struct, frozen=True):
    """What it is about, whether it is well, and what was seen; where it is not well with the next step."""

    about: str
    state: Literal["ok", "warning", "error"]
    text: str
