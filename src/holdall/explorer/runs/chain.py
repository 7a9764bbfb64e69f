"""What is explored of the chain."""

from holdall.explorer.runs.run import Run

RUNS = (
    Run("n1tri4", states=4480),
    Run("x3opp", states=14240),
    Run("x4", states=47552),
    Run("ring3", states=25992),
    Run("low3@oldest", states=27963),
    Run("g2m", states=65818),
    Run("n1abc", "loss=1", 5464),
    Run("x2", "duplicate=1", 18678),
    Run("x2", "crash=1", 39686),
    Run("n1abc", "reboot=1", 47720),
    Run("x2one", "wipe=1", 25760),
    Run("x2low", "expiry=1", 61620),
    Run("n1abc", "cancel=3", 11606),
    Run("x3low", "departure=2", 24469),
    Run("x2", "cancel=1", 4069),
    Run("x2", "departure=1", 2213),
    Run("kb", "loss=1", 13097),
    Run("kb", "duplicate=1", 25918),
    Run("kb", "cancel=1", 4362),
    Run("kb", "departure=1", 3085),
    Run("n1aa", "gone=1", 1527),
    Run("x2one", "gone=1", 7360),
    Run("x2", "gone=1", 37308),
)

LONG = (
    Run("kg3", states=382975),
    Run("b4", states=531439),
    Run("t2", states=417046),
    Run("rot3", "crash=1", 869584),
    Run("x2", "restart=1", 35505),
    Run("kb", "restart=1", 49880),
    Run("kb", "expiry=1", 255447),
    Run("x2", "restart=2", 328004),
    Run("x3opp", "restart=1", 3444286),
    Run("x3low", "reboot=1", 3408802, compact=True),
    Run("x3u", "reboot=1", 5361741, compact=True),
    Run("x2low", "reboot=1,restart=1", 5704954, compact=True),
    Run("x3", "wipe=1", 9042958, compact=True),
    Run("kb", "gone=1", 38205),
)
