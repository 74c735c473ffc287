# %% [markdown]
# # Subspaces, as of faces
#
# Images of a convex object under changing light lie near a subspace of nine dimensions (Basri and
# Jacobs, 2003), so pictures of several faces form a union of subspaces. Here are five such "faces"
# drawn at random. k-means, which looks for centres, fails on subspaces through the origin. Methods
# made for subspaces find them, and so does MLC.

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans

from unbend import MLC, plot_similarity
from unbend.baselines import EnSC
from unbend.metrics import chance_scores, clustering_scores

rng = np.random.default_rng(0)
bases = [np.linalg.qr(rng.normal(size=(100, 9)))[0] for _ in range(5)]
truth = np.repeat(np.arange(5), 80)
X = np.stack([bases[q] @ rng.normal(size=9) for q in truth])
X += 0.05 * rng.normal(size=X.shape)

# %%
model = MLC(5, random_state=0).fit(X)
found = {
    "MLC": model.labels_,
    "EnSC": EnSC(5, random_state=0).fit(X).labels_,
    "k-means": KMeans(5, n_init=10, random_state=0).fit(X).labels_,
}
for name, labels in found.items():
    s = clustering_scores(truth, labels)
    print(f"{name:8}  n {s.n}  ACC {s.acc:.3f}  NMI {s.nmi:.3f}  ARI {s.ari:.3f}")
s = chance_scores(truth, model.labels_)
print(f"{'chance':8}  n {s.n}  ACC {s.acc:.3f}  NMI {s.nmi:.3f}  ARI {s.ari:.3f}")

# %%
plot_similarity(model)
plt.show()
