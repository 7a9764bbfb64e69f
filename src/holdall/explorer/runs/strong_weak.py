"""What is explored of strong and weak queues, in all variants."""

from typing import NamedTuple

from holdall.explorer.runs.run import Run, divided, single

RUNS = (
    *(
        Run(world)
        for world in ("opposite", "opposite+1", "chain3", "chain3pairs", "opp3", "unitsmix", "swaps")
    ),
    Run("opposite", "loss=1"),
    Run("opposite", "duplicate=1"),
    Run("opposite", "cancel=1"),
    Run("opposite", "departure=1"),
    Run("same", "crash=1"),
    Run("sub", "reboot=1"),
    Run("sub", "wipe=1"),
    Run("sub", "expiry=1"),
)
"""Of every variant, without a reduction; the exact numbers are of its own."""

GONE = (Run("pair", "gone=1", 2139), Run("sub", "gone=1", 14020))
TOKEN_GONE = (Run("pair", "gone=1", 1733), Run("sub", "gone=1", 5862))

# Two parties and chains with each single fault. What is missing of a variant here is complete without the reduction:
# in the list above, or in the tests of the explorer.

LOWER_STRONG = (
    *single(
        "pair", reduce="ignored", loss=401, duplicate=414, cancel=177, departure=175, crash=720, restart=592,
        expiry=980, reboot=1164, wipe=2732,
    ),
    *single(
        "same", reduce="ignored", loss=6255, duplicate=8100, cancel=2208, departure=1621, crash=18845, restart=16307,
        expiry=32964, reboot=95780, wipe=137409,
    ),
    *single(
        "opposite", reduce="ignored", loss=6255, duplicate=8100, cancel=2208, departure=1621, crash=18845,
        restart=16307, expiry=32964, reboot=95780, wipe=137409,
    ),
)  # fmt: skip
"""Where the lower pool is strong, two claims of the same pools are alike whichever they name first."""
CHAIN = single(
        "chain", reduce="ignored", loss=7394, duplicate=9277, cancel=2208, departure=1924, crash=19885, restart=17665,
        expiry=36758, reboot=64842, wipe=90863, gone=53154,
)  # fmt: skip
"""Without probes; its claims name the lower pool first."""
LOW = (
    *LOWER_STRONG,
    *CHAIN,
)  # fmt: skip
NAMED = (
    *single("same", reduce="ignored", expiry=32964, wipe=137409),
    *single("opposite", reduce="ignored", restart=23784, expiry=57909, reboot=136105, wipe=169678),
    *CHAIN,
)  # fmt: skip
PROBE = (
    *single("same", reduce="ignored", expiry=32964, reboot=110948, wipe=137409),
    *single("opposite", reduce="ignored", restart=53318, expiry=257565, reboot=348207, wipe=303833),
    *single(
        "chain", reduce="ignored", loss=6731, duplicate=9293, cancel=2444, departure=2382, crash=19299, restart=17238,
        expiry=46540, reboot=76494, wipe=90495, gone=47924,
    ),
)  # fmt: skip
PROBE_AGED = (
    *LOWER_STRONG,
    *single(
        "chain", reduce="ignored", loss=6731, duplicate=9293, cancel=2444, departure=2382, crash=19231, restart=17198,
        expiry=46540, reboot=64833, wipe=90495,
    ),
)  # fmt: skip
PROBE_TOKEN = (
    *single("same", reduce="ignored", expiry=10449, reboot=30041, wipe=35435),
    *single("opposite", reduce="ignored", restart=13996, expiry=62430, reboot=88667, wipe=70941),
    *single(
        "chain", reduce="ignored", loss=2814, duplicate=3732, cancel=1498, departure=1422, crash=7129, restart=6327,
        expiry=17017, reboot=27748, wipe=34001, gone=14515,
    ),
)  # fmt: skip


class Variant(NamedTuple):
    """What is explored of one variant each time, and in the night."""

    runs: tuple[Run, ...]
    long: tuple[Run, ...]


def _variant(faults: tuple[Run, ...], gone: tuple[Run, ...] = GONE) -> Variant:
    usual, long = divided(faults)
    return Variant((*RUNS, *usual, *gone), long)


VARIANTS = {
    "strong-weak": _variant(LOW),
    "strong-weak-named": _variant(NAMED),
    "strong-weak-probe": _variant(PROBE),
    "strong-weak-probe-aged": _variant(PROBE_AGED),
    "strong-weak-probe-token": _variant(PROBE_TOKEN, TOKEN_GONE),
}
