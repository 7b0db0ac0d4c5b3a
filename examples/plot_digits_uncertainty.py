r"""
Digits that a private model is unsure of
========================================

Scattering features are fixed: they learn nothing from the images and cost no budget. A linear model
on them is a private Markov chain whose predictions average over the states that it released. The
entropy of the averaged probabilities says which digits the model is unsure of; looking at it costs
nothing more, because it follows from what was released.
"""

# %%
# Images of 8 x 8 pixels, which need no download
# ----------------------------------------------
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from skdpbayes import DPSGLDClassifier, ScatteringTransformer

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=500, random_state=0)
model = make_pipeline(
    ScatteringTransformer(bounds=(0, 16)),
    DPSGLDClassifier(epsilon=8.0, adjacency="zero_out", random_state=0),
).fit(X_train, y_train)
print(model[-1].privacy_)
accuracy = model.score(X_test, y_test)
print(f"accuracy on digits that were not trained on: {accuracy:.3f}")

# %%
# Entropy of the posterior predictive distribution
# ------------------------------------------------
# In bits; ten labels that are equally likely have 3.3.
probability = model.predict_proba(X_test)
entropy = -np.sum(probability * np.log2(np.maximum(probability, 1e-300)), axis=1)
order = np.argsort(entropy)
right = model.predict(X_test) == y_test
half = len(order) // 2
print(f"accuracy of the surer half: {right[order[:half]].mean():.3f}")
print(f"accuracy of the other half: {right[order[half:]].mean():.3f}")
assert right[order[:half]].mean() > right[order[half:]].mean()

# %%
# The surest and the least sure
# -----------------------------
figure, axes = plt.subplots(2, 6, figsize=(9, 3.6))
chosen = np.concatenate([order[:6], order[-6:]])
for axis, row in zip(axes.ravel(), chosen, strict=True):
    axis.imshow(X_test[row].reshape(8, 8), cmap="gray_r")
    first, second = np.argsort(probability[row])[:-3:-1]
    axis.set_title(
        f"{first}: {probability[row, first]:.2f}, {second}: {probability[row, second]:.2f}",
        fontsize=8,
    )
    axis.set_xlabel(f"entropy {entropy[row]:.1f}, is {y_test[row]}", fontsize=7)
    axis.set_xticks([])
    axis.set_yticks([])
axes[0, 0].set_ylabel("surest", fontsize=9)
axes[1, 0].set_ylabel("least sure", fontsize=9)
figure.tight_layout()
plt.show()
