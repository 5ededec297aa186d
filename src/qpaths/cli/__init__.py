"""The command `qpaths`. JAX and what needs it are imported by the commands, so that the help appears at once."""

from .commands import app, main

__all__ = ["app", "main"]
