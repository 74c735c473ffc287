"""The evidence for the chosen number of clusters, one row per candidate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["ModelSelection"]


@dataclass(frozen=True)
class ModelSelection:
    """One row per candidate number of clusters, and the choice.

    Attributes
    ----------
    k : list of int
        Candidates.
    eigenvalue : list of float
        λ_k of Γ.
    gap : list of float
        (λ_k − λ_{k+1}) relative to the height of λ_k above the bulk of the spectrum.
    coding_length : list of float
        Σ_q L_q of the clustering into k, nats per sample.
    stability : list of float
        Mean adjusted Rand index between clusterings of resampled data.
    chosen : int
        The number of clusters.
    interval : (int, int)
        Smallest and largest number of clusters that the evidence leaves open.
    reason : str
        One sentence: which part of the rule decided.
    """

    k: list[int]
    eigenvalue: list[float]
    gap: list[float]
    coding_length: list[float]
    stability: list[float]
    chosen: int
    interval: tuple[int, int]
    reason: str

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> ModelSelection:
        """Rebuild from ``dataclasses.asdict``, also after a round trip through JSON."""
        low, high = values["interval"]
        return cls(**{**values, "interval": (int(low), int(high))})

    def rows(self) -> list[dict[str, float]]:
        """The table as one dictionary per candidate."""
        columns = ("k", "eigenvalue", "gap", "coding_length", "stability")
        return [
            dict(zip(columns, row, strict=True))
            for row in zip(*(getattr(self, name) for name in columns), strict=True)
        ]

    def plot(self, ax: Any = None) -> Any:
        """Draw eigenvalues, coding length and stability over k; returns the axes.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.
        """
        try:
            from matplotlib import pyplot as plt
        except ImportError as error:
            raise ImportError("plotting needs matplotlib; pip install unbend[plot]") from error
        if ax is None:
            ax = plt.subplots(figsize=(7, 3.5), layout="constrained")[1]
        ax.plot(self.k, self.eigenvalue, "o-", ms=3, color="C0", label="eigenvalue of Γ")
        ax.plot(self.k, self.stability, "s-", ms=3, color="C2", label="stability (ARI)")
        ax.set(xlabel="number of clusters k", ylim=(0, 1.05))
        other = ax.twinx()
        other.plot(self.k, self.coding_length, "^-", ms=3, color="C1", label="coding length")
        other.set_ylabel("coding length (nats per sample)")
        ax.axvspan(self.interval[0] - 0.5, self.interval[1] + 0.5, color="0.9", zorder=0)
        ax.axvline(self.chosen, color="0.4", ls="--", label=f"chosen: {self.chosen}")
        handles = ax.get_legend_handles_labels()[0] + other.get_legend_handles_labels()[0]
        ax.legend(handles=handles, fontsize="small")
        return ax
