"""`python -m qpaths` is the command `qpaths`."""

from .cli import main

main()
