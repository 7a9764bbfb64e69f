"""`python -m holdall.cli`."""

from holdall.cli import main

main()
