"""The paper's simulation does what the paper says."""

import numpy as np
import pytest

from unbend.experiments import EXPERIMENTS, experiment
from unbend.experiments.paper import figure1


@pytest.fixture(scope="module")
def results():
    return [figure1.stages(seed) for seed in range(2)]


def is_a_plane_and_a_line(stage):
    """Accuracy 1, ranks 2 and 1, |cos| at most 0.1."""
    return stage.accuracy == 1.0 and stage.ranks == (2, 1) and stage.cosine <= 0.1


def test_stage_2_is_a_plane_and_a_line_at_a_right_angle(results):
    assert all(is_a_plane_and_a_line(found[2]) for _, _, found in results)


def test_random_features_are_not_orthogonal(results):
    assert all(found[0].cosine > 0.3 for _, _, found in results)


@pytest.mark.slow
def test_the_straightening_is_the_work_of_stage_2():
    """Over ten seeds: always after stage 2, on average not before it."""
    results = [figure1.stages(seed)[2] for seed in range(10)]
    assert all(is_a_plane_and_a_line(found[2]) for found in results)
    for stage in (0, 1):
        assert np.mean([found[stage].cosine for found in results]) > 0.3


def test_table_and_picture_are_written(results, tmp_path, monkeypatch):
    """A row per stage and chance; a picture with four panels."""
    monkeypatch.setattr(figure1, "stages", lambda seed: results[seed])
    table = figure1.run(seeds=2, out=tmp_path, verbose=False)
    assert [row[0] for row in table.rows] == [*figure1.NAMES, "chance"]
    assert table.rows[2][1] == "1.000 ± 0.000"
    written = {p.name for p in tmp_path.iterdir()} - {"cache"}
    assert written == {f"figure1.{end}" for end in ("png", "md", "csv", "json")}
    assert len(figure1.draw(*results[0]).axes) == 4


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_listed_experiment_exists(name):
    """The list that help prints is the list that runs."""
    assert callable(experiment(name))
