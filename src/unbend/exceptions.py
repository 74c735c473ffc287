"""The warnings of unbend. Wrong input raises the built-in ValueError and TypeError."""

__all__ = ["CollapseWarning", "NotConvergedWarning", "UnbendWarning"]


class UnbendWarning(UserWarning):
    """Base of every warning that unbend issues."""


class CollapseWarning(UnbendWarning):
    """Training drifted towards a degenerate representation, or lost finite numbers."""


class NotConvergedWarning(UnbendWarning):
    """An iteration stopped at its limit before it reached its tolerance."""
