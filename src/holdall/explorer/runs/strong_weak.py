"""What is explored of strong and weak queues, in all variants."""

from holdall.explorer.runs.run import Run

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
    Run("same", "expiry=1", states_max=60_000),
    Run("opposite", "reboot=1", states_max=60_000),
)
COMPLETE = (
    Run("same", "duplicate=1", 8100, reduce="ignored"),
    Run("same", "crash=1", 18845, reduce="ignored"),
    Run("same", "expiry=1", 32964, reduce="ignored"),
    Run("opposite", "loss=1", 6255, reduce="ignored"),
    Run("opposite", "duplicate=1", 8100, reduce="ignored"),
    Run("opposite", "departure=1", 1621, reduce="ignored"),
    Run("opposite", "crash=1", 18845, reduce="ignored"),
    Run("opposite", "restart=1", 16307, reduce="ignored"),
    Run("opposite", "expiry=1", 32964, reduce="ignored"),
    Run("chain", "loss=1", 7394, reduce="ignored"),
    Run("chain", "duplicate=1", 9277, reduce="ignored"),
    Run("chain", "cancel=1", 2208, reduce="ignored"),
    Run("chain", "departure=1", 1924, reduce="ignored"),
    Run("chain", "crash=1", 19885, reduce="ignored"),
    Run("chain", "restart=1", 17665, reduce="ignored"),
    Run("chain", "expiry=1", 36758, reduce="ignored"),
)
"""With the lower pool strong: what is cut without the reduction."""
LONG = (
    Run("same", "reboot=1", 95780, reduce="ignored"),
    Run("same", "wipe=1", 137409, reduce="ignored"),
    Run("chain", "gone=1", 53154, reduce="ignored"),
)
GONE = (Run("pair", "gone=1", 2139), Run("sub", "gone=1", 14020))
GONE_LONG = {
    "strong-weak-named": (Run("chain", "gone=1", 53154, reduce="ignored"),),
    "strong-weak-probe": (Run("chain", "gone=1", 47924, reduce="ignored"),),
    "strong-weak-probe-token": (Run("chain", "gone=1", 14515, reduce="ignored"),),
}
"""By variant."""
TOKEN_GONE = (Run("pair", "gone=1", 1733), Run("sub", "gone=1", 5862))
"""With the ring token."""
