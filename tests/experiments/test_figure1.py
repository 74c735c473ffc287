"""The paper's simulation does what the paper says, over ten seeds."""

import numpy as np
import pytest

from unbend.experiments import EXPERIMENTS, experiment
from unbend.experiments.paper import figure1


@pytest.fixture(scope="module")
def results():
    return [figure1.stages(seed) for seed in range(10)]


def test_stage_2_is_a_plane_and_a_line_at_a_right_angle(results):
    """Accuracy 1, ranks 2 and 1, |cos| at most 0.1, for every seed."""
    for _, _, found in results:
        assert found[2].accuracy == 1.0
        assert found[2].ranks == (2, 1)
        assert found[2].cosine <= 0.1


def test_subspaces_are_not_orthogonal_before_stage_2(results):
    """The straightening is stage 2's work: before it the subspaces are not yet orthogonal."""
    for stage in (0, 1):
        assert np.mean([found[stage].cosine for _, _, found in results]) > 0.3


def test_table_and_picture_are_written(results, tmp_path, monkeypatch):
    """A row per stage and chance; a picture with four panels."""
    monkeypatch.setattr(figure1, "stages", lambda seed: results[seed])
    table = figure1.run(seeds=3, out=tmp_path, verbose=False)
    assert [row[0] for row in table.rows] == [*figure1.NAMES, "chance"]
    assert table.rows[2][1] == "1.000 ± 0.000"
    written = {p.name for p in tmp_path.iterdir()} - {"cache"}
    assert written == {f"figure1.{end}" for end in ("png", "md", "csv", "json")}
    assert len(figure1.draw(*results[0]).axes) == 4


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_listed_experiment_exists(name):
    """The list that help prints is the list that runs."""
    assert callable(experiment(name))
