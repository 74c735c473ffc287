"""Line 10 of Algorithm 1: labels, prediction, the number of clusters, the merge tree."""

from unbend.labels.calibration import calibrate_eta
from unbend.labels.candidates import Codes, Labelled, choose_labelling
from unbend.labels.hierarchy import merge_clusters, ward_tree
from unbend.labels.label import label_codes
from unbend.labels.model import LabelModel
from unbend.labels.selection import ModelSelection

__all__ = [
    "Codes",
    "LabelModel",
    "Labelled",
    "ModelSelection",
    "calibrate_eta",
    "choose_labelling",
    "label_codes",
    "merge_clusters",
    "ward_tree",
]
