"""The command line: thin commands over the library."""

from unbend.cli.app import main

__all__ = ["main"]
