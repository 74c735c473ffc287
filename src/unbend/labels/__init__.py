"""Line 10 of Algorithm 1: labels, prediction, the number of clusters, the merge tree."""

from unbend.labels.calibration import calibrate_eta
from unbend.labels.candidates import Codes, Labelled, choose_labelling
from unbend.labels.choose import Space, choose_n_clusters
from unbend.labels.confidence import calibrate_temperature, count_votes, n_voters
from unbend.labels.first_look import first_look
from unbend.labels.hierarchy import merge_clusters, ward_tree
from unbend.labels.label import label_codes
from unbend.labels.model import LabelModel
from unbend.labels.selection import ModelSelection
from unbend.labels.surroundings import Surroundings, reference_rows, survey
from unbend.labels.update import take_in

__all__ = [
    "Codes",
    "LabelModel",
    "Labelled",
    "ModelSelection",
    "Space",
    "Surroundings",
    "calibrate_eta",
    "calibrate_temperature",
    "choose_labelling",
    "choose_n_clusters",
    "count_votes",
    "first_look",
    "label_codes",
    "merge_clusters",
    "n_voters",
    "reference_rows",
    "survey",
    "take_in",
    "ward_tree",
]
