"""What is explored of the two steps of the lanes' history."""

from holdall.explorer.runs.run import Run

SKEEN = (Run("same", states=873), Run("line", states=584), Run("twice", states=1975))
BALLOT = (Run("line", states=30136), Run("mixed", states=5623), Run("twice", states=22232))
