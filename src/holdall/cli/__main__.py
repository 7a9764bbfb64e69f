"""`python -m holdall.cli`."""

from holdall.cli.entry import main

main()
