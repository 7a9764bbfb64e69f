"""`python -m holdall.http`: started by the node, with its orders on standard input."""

import sys

from holdall.http.server import main

if __name__ == "__main__":
    sys.exit(main())
