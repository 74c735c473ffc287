"""The evidence for the chosen number of clusters, one row per candidate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["ModelSelection"]

_BAR = 60  # characters of a bar in the terminal
_SIGNS = "=-"


@dataclass(frozen=True)
class ModelSelection:
    """One row per candidate number of clusters, and the choice.

    Attributes
    ----------
    k : list of int
        Candidates.
    gap : list of float
        Relative gap after the k-th eigenvalue of the neighbour graphs, from 0 to 1, on average.
    drop : list of float
        Relative drop after the k-th eigenvalue of Γ at the η that belongs to k.
    eta : list of float
        That η.
    strength : list of float or None
        What speaks for k altogether, see :func:`~unbend.labels.choose_n_clusters`, for the numbers
        that were looked at; None for the others.
    stability : list of float or None
        Mean adjusted Rand index between clusters of a sample and of its halves.
    explained : list of float or None
        Share of the coding rate that these clusters explain.
    chosen : int
        The number of clusters.
    interval : (int, int)
        Smallest and largest number of clusters that the evidence leaves open, between half and
        twice the chosen one.
    candidates : list of dict
        Up to three numbers, the chosen one first, each with ``k``, a sentence ``text``, its
        ``strength`` beside that of the chosen one, and the ``sizes`` of its clusters as shares.
    reason : str
        The sentence of the chosen number.
    """

    k: list[int]
    gap: list[float]
    drop: list[float]
    eta: list[float]
    strength: list[float | None]
    stability: list[float | None]
    explained: list[float | None]
    chosen: int
    interval: tuple[int, int]
    candidates: list[dict[str, Any]]
    reason: str

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> ModelSelection:
        """Rebuild from ``dataclasses.asdict``, also after a round trip through JSON."""
        low, high = values["interval"]
        return cls(**{**values, "interval": (int(low), int(high))})

    def rows(self) -> list[dict[str, Any]]:
        """The table as one dictionary per candidate."""
        columns = ("k", "gap", "drop", "eta", "strength", "stability", "explained")
        return [
            dict(zip(columns, row, strict=True))
            for row in zip(*(getattr(self, name) for name in columns), strict=True)
        ]

    def describe(self) -> list[str]:
        """The choice, its interval, and a sentence and a bar of cluster sizes per candidate.

        In a bar the sign changes from one cluster to the next, the largest first.
        """
        low, high = self.interval
        span = "" if low == high else f", {low} to {high} are plausible"
        lines = [f"number of clusters: {self.chosen}{span}"]
        for row in self.candidates:
            lines += [f"  {row['text']}", f"    {_bar(row['sizes'])}"]
        return lines

    def plot_candidates(self, ax: Any = None) -> Any:
        """Draw the cluster sizes of each candidate below its sentence; returns the axes.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.
        """
        ax = _axes(ax)
        for height, row in enumerate(reversed(self.candidates)):
            start = 0.0
            for i, share in enumerate(row["sizes"]):
                ax.barh(height, share, left=start, height=0.3, color=("C0", "0.7")[i % 2])
                start += share
            ax.text(0, height + 0.22, row["text"], fontsize="small")
        ax.set(xlim=(0, 1), ylim=(-0.3, len(self.candidates) - 0.3), yticks=[])
        ax.set_xlabel("share of the samples")
        return ax

    def plot(self, ax: Any = None) -> Any:
        """Draw gap, strength and stability over k; returns the axes.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.
        """
        ax = _axes(ax)
        ax.plot(self.k, self.gap, "o-", ms=3, color="C0", label="gap of the graphs")
        looked = [i for i, value in enumerate(self.strength) if value is not None]
        ks = [self.k[i] for i in looked]
        steady = [self.stability[i] for i in looked]
        ax.plot(ks, steady, "s", ms=4, color="C2", label="stability (ARI)")
        other = ax.twinx()
        strength = [self.strength[i] for i in looked]
        other.plot(ks, strength, "^", ms=4, color="C1", label="strength")
        other.set_ylabel("strength")
        ax.set(xlabel="number of clusters k", ylim=(0, 1.05))
        ax.axvspan(self.interval[0] - 0.5, self.interval[1] + 0.5, color="0.9", zorder=0)
        ax.axvline(self.chosen, color="0.4", ls="--", label=f"chosen: {self.chosen}")
        handles = ax.get_legend_handles_labels()[0] + other.get_legend_handles_labels()[0]
        ax.legend(handles=handles, fontsize="small")
        return ax


def _axes(ax: Any) -> Any:
    """The axes to draw on."""
    try:
        from matplotlib import pyplot as plt
    except ImportError as error:
        raise ImportError("plotting needs matplotlib; pip install unbend[plot]") from error
    return plt.subplots(figsize=(7, 3.5), layout="constrained")[1] if ax is None else ax


def _bar(sizes: list[float]) -> str:
    """Shares as a bar; clusters smaller than half a character may vanish.

    >>> _bar([0.5, 0.3, 0.2])
    '==============================------------------============'
    """
    text, end = "", 0.0
    for i, share in enumerate(sizes):
        end += share
        text += _SIGNS[i % 2] * (round(end * _BAR) - len(text))
    return text
