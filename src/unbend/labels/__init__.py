"""Line 10 of Algorithm 1 and after: labels, new samples, the number of clusters, the tree."""

from unbend.labels.hierarchy import merge_clusters
from unbend.labels.label import label_codes
from unbend.labels.model import LabelModel
from unbend.labels.selection import ModelSelection

__all__ = ["LabelModel", "ModelSelection", "label_codes", "merge_clusters"]
