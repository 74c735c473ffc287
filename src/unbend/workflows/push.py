"""The function behind ``unbend push``."""

from __future__ import annotations

import tempfile
from importlib.util import find_spec
from pathlib import Path

from unbend.report.run_facts import facts_of_run
from unbend.workflows.predict import load_run

__all__ = ["push"]

_MOST = 3000  # samples on the map


def push(
    run: str | Path,
    repo: str,
    *,
    license: str | None = None,
    private: bool | None = None,
    token: str | None = None,
) -> str:
    """Upload the model of a run to the Hugging Face hub, with a card written from the run.

    The card names the data, n, k, the sizes of the groups, the scores with their chance level if
    true labels were given, and shows the map of the features if matplotlib is installed. The
    parameters are those of :meth:`unbend.MLC.push_to_hub`, which returns the address.
    """
    run = Path(run)
    model = load_run(run)
    with tempfile.TemporaryDirectory() as folder:
        picture = _draw(run, Path(folder) / "map.png")
        return model.push_to_hub(
            repo, run=run, license=license, picture=picture, private=private, token=token
        )


def _draw(run: Path, path: Path) -> Path | None:
    """The map of a run, if it kept its features and matplotlib is there."""
    if find_spec("matplotlib") is None or not (run / "features.npy").is_file():
        return None
    from matplotlib.figure import Figure

    from unbend.report.plots import draw_map

    facts = facts_of_run(run)
    if facts.features is None or len(facts.labels) < 5:
        return None
    figure = Figure(figsize=(5.5, 5))
    n_clusters = int(facts.labels.max()) + 1
    draw_map(facts.features, facts.labels, n_clusters, ax=figure.subplots(), max_samples=_MOST)
    figure.savefig(path, dpi=120, bbox_inches="tight")
    return path
