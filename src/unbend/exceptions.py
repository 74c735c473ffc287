"""The warnings of unbend. Wrong input raises the built-in ValueError and TypeError."""

__all__ = ["CollapseWarning", "NotConvergedWarning", "UnbendWarning"]


class UnbendWarning(UserWarning):
    """Base class of all unbend warnings."""


class CollapseWarning(UnbendWarning):
    """Training collapsed to a degenerate representation or produced NaN or infinity."""


class NotConvergedWarning(UnbendWarning):
    """An iteration reached its limit before its tolerance."""
