# %% [markdown]
# # Research: an objective of your own
#
# Stage 2 minimises −R + R_c: R_c draws the features of a group together, R keeps all features
# apart. What if R counts less, or not at all? An objective is a function of the features and codes
# of a batch, so the question takes a few lines. The same hooks take a backbone, views and
# callbacks.

# %%
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from unbend import MLC, plot_similarity
from unbend.algorithm import mlc_objective
from unbend.metrics import chance_scores, clustering_scores, numerical_rank

digits = load_digits()
X, y = digits.data[:600], digits.target[:600]


def less_room(weight):
    """MLC in which R counts with a weight; 1 is MLC itself."""

    def objective(Z, C, config, generator):
        terms = mlc_objective(Z, C, config, generator)
        return terms._replace(loss=terms.R_c - weight * terms.R)

    return objective


# %% [markdown]
# One η and the paper's labels (line 10), so that all labels come from stage 2. By default the
# labels may also come from stage 1, which an objective does not change.

# %%
only_stage_2 = {"stage2.sharpness": (0.75,), "labels.join": "none"}
models = {}
for weight in (1.0, 0.5, 0.0):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        objective = less_room(weight)
        model = MLC(10, objective=objective, random_state=0, settings=only_stage_2).fit(X)
    models[weight] = model
    Z, other = model.transform(X), model.labels_[:, None] != model.labels_
    s, last = clustering_scores(y, model.labels_), model.history_[-1]
    print(f"weight of R {weight:g}:  R {last['R']:.1f}  R_c {last['R_c']:.1f}", end="  ")
    print(f"rank {numerical_rank(Z)}  |cos| between groups {np.abs(Z @ Z.T)[other].mean():.2f}")
    print(f"  n {s.n}  ACC {s.acc:.3f}  NMI {s.nmi:.3f}  ARI {s.ari:.3f}")
    for warning in caught:
        print("  warning:", warning.message)
s = chance_scores(y, models[1.0].labels_)
print(f"chance\n  n {s.n}  ACC {s.acc:.3f}  NMI {s.nmi:.3f}  ARI {s.ari:.3f}")

# %%
figure, axes = plt.subplots(1, 3, figsize=(13, 4))
for weight, model in models.items():
    rates = [row["R"] for row in model.history_ if row["stage"] == "stage 2"]
    axes[0].plot(rates, label=f"weight {weight:g}")
axes[0].set(xlabel="step of stage 2", ylabel="R", title="what all features span")
axes[0].legend()
for ax, weight in zip(axes[1:], (1.0, 0.0), strict=True):
    plot_similarity(models[weight], ax=ax)
    ax.set_title(f"similarities, weight {weight:g}")
plt.show()

# %% [markdown]
# Without R the features collapse: all groups point nearly the same way. The guard notices, restores
# a healthy state and lowers the learning rate, and the warning says so. The scores stay the same:
# labels come from the codes of the other head, on which R does not depend. So this objective harms
# what `transform` returns, not the labels. It is one seed of one data set: a claim needs several of
# both, as in `unbend benchmark`.
