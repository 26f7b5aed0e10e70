"""``python -m skillwright``: the command line."""

from skillwright.cli import main

main()
