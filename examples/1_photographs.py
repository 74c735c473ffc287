# %% [markdown]
# # Photographs
#
# 240 crops of two photographs that come with scikit-learn, a temple and a flower. The crops go
# through a pre-trained encoder (`pip install 'unbend[encoder]'`), MLC finds the groups, and new
# crops are labelled.

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_images

from unbend import MLC, plot_map
from unbend.metrics import clustering_accuracy

rng = np.random.default_rng(0)
photographs = load_sample_images().images  # two arrays (427, 640, 3)


def crops(n, side=96):
    """n crops as (n, 3, side, side), and the photograph of each."""
    which = np.arange(n) % len(photographs)
    top, left = rng.integers(0, 427 - side, n), rng.integers(0, 640 - side, n)
    corners = zip(which, top, left, strict=True)
    cut = [photographs[w][t : t + side, x : x + side] for w, t, x in corners]
    return np.stack(cut).transpose(0, 3, 1, 2), which


images, truth = crops(240)
model = MLC(2, encoder="lite0", random_state=0).fit(images)
print("sizes", np.bincount(model.labels_), "ACC", clustering_accuracy(truth, model.labels_))

# %% [markdown]
# New crops, as `unbend predict` labels new files:

# %%
new, new_truth = crops(40)
print("ACC on new crops", clustering_accuracy(new_truth, model.predict(new)))

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.6))
plot_map(model, ax=left)
rows = [images[model.labels_ == q][:6].transpose(0, 2, 3, 1) for q in range(2)]
right.imshow(np.concatenate([np.concatenate(list(row), 1) for row in rows]))
right.set(title="six crops of each group", xticks=[], yticks=[])
plt.show()
