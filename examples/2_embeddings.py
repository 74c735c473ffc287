# %% [markdown]
# # Embeddings
#
# Any matrix with a row per sample: here 1,000 handwritten digits as vectors of 64 numbers. The
# scores at the end are of one seed; the README has five.

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits

from unbend import MLC, plot_map, plot_similarity
from unbend.metrics import chance_scores, clustering_scores

digits = load_digits()
X, y = digits.data[:1000], digits.target[:1000]
model = MLC(10, random_state=0).fit(X)
kmeans = KMeans(10, n_init=10, random_state=0).fit(X)

# %%
for name, s in {
    "MLC": clustering_scores(y, model.labels_),
    "k-means": clustering_scores(y, kmeans.labels_),
    "chance": chance_scores(y, model.labels_),
}.items():
    print(f"{name:8}  n {s.n}  ACC {s.acc:.3f}  NMI {s.nmi:.3f}  ARI {s.ari:.3f}")

# %% [markdown]
# Every sample has a probability for each cluster and an outlier score. Noise is an outlier:

# %%
noise = np.random.default_rng(0).uniform(0, 16, (5, 64))
print("outlier scores of digits", model.outlier_score(digits.data[1000:1005]).round(3))
print("outlier scores of noise ", model.outlier_score(noise).round(3))
print("threshold", round(model.outlier_threshold_, 3))

# %%
figure, axes = plt.subplots(1, 2, figsize=(10, 4.6))
plot_map(model, ax=axes[0])
plot_similarity(model, ax=axes[1])
plt.show()
