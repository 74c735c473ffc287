# %% [markdown]
# # Time series
#
# Series of equal length whose phase does not matter: four kinds of waves with random phase, speed
# and noise. Their raw values differ with the phase; the size of their Fourier coefficients does
# not. MLC clusters the latter.

# %%
import matplotlib.pyplot as plt
import numpy as np
from scipy.signal import sawtooth, square
from sklearn.cluster import KMeans

from unbend import MLC, plot_map
from unbend.metrics import chance_scores, clustering_scores

rng = np.random.default_rng(0)
waves = [np.sin, square, sawtooth, lambda t: np.sin(t) + np.sin(2.5 * t)]
truth = np.repeat(np.arange(4), 100)
t = np.linspace(0, 1, 256, endpoint=False)
speed, phase = rng.uniform(5.5, 6.5, (400, 1)), rng.uniform(0, 2 * np.pi, (400, 1))
series = np.stack([waves[q](2 * np.pi * speed[i] * t + phase[i]) for i, q in enumerate(truth)])
series += 0.2 * rng.normal(size=series.shape)
X = np.log1p(np.abs(np.fft.rfft(series))[:, 1:64])

# %%
model = MLC(4, random_state=0).fit(X)
found = {
    "MLC": model.labels_,
    "k-means": KMeans(4, n_init=10, random_state=0).fit(X).labels_,
}
for name, labels in found.items():
    s = clustering_scores(truth, labels)
    print(f"{name:8}  n {s.n}  ACC {s.acc:.3f}  NMI {s.nmi:.3f}  ARI {s.ari:.3f}")
s = chance_scores(truth, model.labels_)
print(f"{'chance':8}  n {s.n}  ACC {s.acc:.3f}  NMI {s.nmi:.3f}  ARI {s.ari:.3f}")

# %%
figure, axes = plt.subplots(1, 2, figsize=(10, 4.6))
plot_map(model, ax=axes[0])
for q in range(4):
    axes[1].plot(t, series[model.labels_ == q][0] - 4 * q, lw=1, c="k")
axes[1].set(title="one series of each group", ylabel="cluster")
axes[1].set_yticks([-4 * q for q in range(4)], range(4))
plt.show()
