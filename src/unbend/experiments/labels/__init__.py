"""Labels to rely on: the merge tree, the number of clusters, confidence, outliers.

Every figure comes from whole fits of MLC on problems of the development list, beside what was done
before and what else could be done. Fits are kept, so a run goes on where an earlier one stopped.
"""
