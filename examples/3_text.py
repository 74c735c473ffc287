# %% [markdown]
# # Text
#
# Texts become vectors first. With a sentence encoder the vectors are better; this example needs
# none: it takes the docstrings of three scientific packages, and TF-IDF with a truncated SVD as in
# latent semantic analysis.

# %%
import inspect

import matplotlib.pyplot as plt
import numpy as np
import scipy.linalg
import scipy.signal
import scipy.stats
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

from unbend import MLC, plot_map
from unbend.metrics import chance_scores, clustering_scores

modules = [scipy.stats, scipy.signal, scipy.linalg]
texts, truth = [], []
for label, module in enumerate(modules):
    for name in module.__all__:
        text = inspect.getdoc(getattr(module, name)) or ""
        if len(text) > 300:
            texts.append(text)
            truth.append(label)
print(len(texts), "docstrings, per module", np.bincount(truth))

# %%
# Words only: scipy puts random numbers into some docstrings, other ones at each start.
only_words = r"(?u)\b[^\W\d]\w+\b"
words = TfidfVectorizer(sublinear_tf=True, min_df=3, stop_words="english", token_pattern=only_words)
X = TruncatedSVD(50, random_state=0).fit_transform(words.fit_transform(texts))
X /= np.linalg.norm(X, axis=1, keepdims=True)
model = MLC(3, random_state=0).fit(X)
for name, s in {
    "MLC": clustering_scores(truth, model.labels_),
    "chance": chance_scores(truth, model.labels_),
}.items():
    print(f"{name:8}  n {s.n}  ACC {s.acc:.3f}  NMI {s.nmi:.3f}  ARI {s.ari:.3f}")

# %% [markdown]
# The words that are typical of each group:

# %%
counts, names = words.transform(texts), words.get_feature_names_out()
for q in range(3):
    mean = np.asarray(counts[model.labels_ == q].mean(0))[0]
    print(q, ", ".join(names[mean.argsort()[::-1][:8]]))

# %%
plot_map(model)
plt.show()
