from dataclasses import replace

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot as plt

from unbend.report import plots, summarise

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


def test_similarity_shows_the_matrix(summary):
    ax = plots.plot_similarity(summary)
    shown = ax.images[0].get_array()
    np.testing.assert_allclose(shown, summary["similarity"]["matrix"] / 255)
    assert [t.get_text() for t in ax.get_xticklabels()] == [str(q) for q in range(10)]


def test_spectrum_marks_the_gap(summary):
    ax = plots.plot_spectrum(summary)
    curve, mark = ax.lines
    np.testing.assert_allclose(curve.get_ydata(), summary["spectrum"]["eigenvalues"])
    assert mark.get_xdata()[0] == 10.5
    assert "gap 0.5" in ax.get_title()


def test_rates_follow_each_other(summary):
    ax = plots.plot_rates(summary)
    lines = {line.get_label(): line for line in ax.lines if not line.get_label().startswith("_")}
    assert set(lines) == {"$R$", "$R_c$", "$ΔR$"}
    assert lines["$R_c$"].get_xdata().tolist() == list(range(30, 50))
    assert lines["$R_c$"].get_ydata()[-1] == 31


def test_map_has_a_point_per_sample_and_a_number_per_cluster(summary):
    ax = plots.plot_map(summary)
    assert len(ax.collections[0].get_offsets()) == 600
    assert {t.get_text() for t in ax.texts} == {str(q) for q in range(10)}
    assert not plots.plot_map(summary, numbers=False).texts


def test_picture_rows(summary):
    sheet = plots.plot_contact_sheet(summary, 2, columns=6).images[0].get_array()
    assert sheet.shape == (4 * 8, 6 * 8, 3)
    slot = summary["clusters"][2]["examples"][7]
    tile = summary["thumbnails"][summary["samples"]["thumbnail"][slot]]
    np.testing.assert_array_equal(sheet[8:16, 8:16], tile)
    ax = plots.plot_principal_images(summary, 2)
    assert ax.images[0].get_array().shape == (8 * 8, 8 * 8, 3)


def test_tree_and_table(summary, facts):
    ax = plots.plot_tree(summary)
    assert len(ax.get_xticklabels()) == 10
    table = plots.plot_contingency(summary).images[0].get_array()
    np.testing.assert_allclose(table.sum(axis=1), 1)
    assert (np.diag(table) > 0.8).all()


def test_given_axes_are_used(summary):
    ax = plt.subplots()[1]
    assert plots.plot_spectrum(summary, ax) is ax


def test_what_is_missing_is_named(facts, summary):
    bare = summarise(replace(facts, features=None, y=None, thumbnails=None, thumbnail_index=None))
    with pytest.raises(ValueError, match="no `similarity`: it was made without `features`"):
        plots.plot_similarity(bare)
    with pytest.raises(ValueError, match="no `truth`"):
        plots.plot_contingency(bare)
    with pytest.raises(ValueError, match="no pictures"):
        plots.plot_contact_sheet(bare, 0)
    with pytest.raises(ValueError, match="`cluster` must be from 0 to 9, got 10"):
        plots.plot_principal_images(summary, 10)
