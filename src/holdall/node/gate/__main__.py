"""`python -m holdall.node.gate`."""

import asyncio
import sys

from holdall.node.gate.process import work

sys.exit(asyncio.run(work()))
