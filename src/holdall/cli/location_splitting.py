"""`holdall location split`: a part of a lease becomes somebody else's."""

import sys
from collections.abc import Sequence

from holdall.cli.location_asking import pairs
from holdall.cli.location_shown import terms_text
from holdall.cli.options import converse
from holdall.cli.tables import plain, print_json
from holdall.client.location_talk import LocationTalk
from holdall.client.splitting import new_split, parted
from holdall.model.durations import show_duration


def split(lease: str, terms: Sequence[str], to: str, request: str, url: str, *, as_json: bool) -> None:
    """Once. Raises what `parted` says."""
    question = new_split(lease, pairs(terms, ""), to, request)
    with converse(url) as node:
        answer = parted(LocationTalk(node).ask(question), lease)
    rest, part = answer.rest.document, answer.part
    if as_json:
        print_json("split", {"rest": rest, "part": part})
        return
    sys.stdout.write(f"{plain(part.lease)}\n")
    sys.stderr.write(
        f"split     {terms_text(part)} for {plain(part.holder)}, {show_duration(part.remaining_ms)} left\n"
        f"yours     {terms_text(rest)}\n"
        f"next      {plain(part.holder)}: holdall location renew {plain(part.lease)} --duration TIME\n"
    )
