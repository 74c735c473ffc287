"""The report of a clustering: a summary as a plain dict, then one HTML file or plots.

``write_report(run)`` writes ``report.html`` into a run directory. ``summarise(model, X)`` and
``render(summary)`` do the same for a fitted model.
"""

from unbend.report.facts import Facts, facts_of_model
from unbend.report.inspection import render_inspection
from unbend.report.passages import choose_passages
from unbend.report.render import render
from unbend.report.run_facts import facts_of_run
from unbend.report.sprites import make_thumbnails
from unbend.report.summarise import summarise
from unbend.report.truth import compare_with_truth
from unbend.report.write import write_report

__all__ = [
    "Facts",
    "choose_passages",
    "compare_with_truth",
    "facts_of_model",
    "facts_of_run",
    "make_thumbnails",
    "render",
    "render_inspection",
    "summarise",
    "write_report",
]
