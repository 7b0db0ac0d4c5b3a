r"""
A generative network with a private discriminator
=================================================

Li, Chen, Liu and Carin (2019) train a semi-supervised generative network on MNIST: a hundred images
have labels, and the discriminator, a Markov chain of stochastic-gradient Hamiltonian Monte Carlo,
is a classifier of K digits and of "made by the generator". They print 98.3 % at ε = 0.2. This page
runs such an experiment on :func:`skdpbayes.sampling.chain` and reports what it reaches.
:doc:`/images` has numbers of MNIST at half its resolution, which ``python
examples/plot_semi_supervised_gan.py --full`` reads; this page takes scikit-learn's small digits.

**What is protected.** The discriminator's gradients are clipped, record by record, and noise is
added to their sum; the generator sees nothing but the discriminator's released states, so it, and
every image that it makes, is post-processing. Two questions differ in which records the sum is of:

- *All records*, images and labels: one image, with its label if it has one, may be zeroed out.
- *Images without a label*: the hundred labeled ones are public, such as of people who agreed.
  Nothing is promised to them.
"""

# %%
# The images
# ----------
import os
import sys
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

from skdpbayes import PrivacyWarning
from skdpbayes.datasets import load_mnist
from skdpbayes.sampling import chain

# Seeds make this page reproducible, which a real release must not be: it leaves random_state out.
warnings.simplefilter("ignore", PrivacyWarning)
full, quick = "--full" in sys.argv, bool(os.environ.get("SKDPBAYES_QUICK"))
N_CLASSES, N_LABELED, FAKE, UNLABELED = 10, 100, 10, -1
EPSILONS = (0.2, 1.0, 8.0)
if full:
    X, y = load_mnist(return_X_y=True)
    X = X.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4)).reshape(len(X), -1)
    n_test, n_steps, batch_size = 10_000, 800, 1500
else:
    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    n_test, n_steps, batch_size = 500, 150 if quick else 400, 256
order = np.random.default_rng(0).permutation(len(X))
X_test, y_test = X[order[:n_test]], y[order[:n_test]]
X, y = X[order[n_test:]], y[order[n_test:]]
side = int(X.shape[1] ** 0.5)
label = np.where(np.arange(len(X)) < N_LABELED, y, UNLABELED)

# %%
# A hundred labels alone
# ----------------------
# What a private model has to beat: the same network, fitted to the labeled images without privacy.
alone = MLPClassifier((32,), alpha=0.1, max_iter=2000, random_state=0)
baseline = alone.fit(X[:N_LABELED], y[:N_LABELED]).score(X_test, y_test)
print(f"100 labels alone, no privacy: {baseline:.3f}")


# %%
# Two networks
# ------------
# A record pulls at the logits by a target minus the probabilities: the target is its label, "fake"
# for what the generator made, and for an image without a label the probabilities of the digits
# given that it is none of the generator's.
def softmax(logits):
    """Return probabilities of the rows."""
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return odds / odds.sum(axis=1, keepdims=True)


class Discriminator:
    """A hidden layer of 32 and 11 logits, as functions of one vector of parameters."""

    def __init__(self, n_pixels):
        self.shapes = [(n_pixels, 32), (32,), (32, N_CLASSES + 1), (N_CLASSES + 1,)]
        self.ends = np.cumsum([np.prod(shape) for shape in self.shapes])

    def start(self, rng):
        """Return random parameters."""
        scales = (2.0 / np.sqrt(self.shapes[0][0]), 0.0, 0.02, 0.0)
        shapes = zip(scales, self.shapes, strict=True)
        return np.concatenate(
            [scale * rng.standard_normal(shape).ravel() for scale, shape in shapes]
        )

    def layers(self, theta):
        """Return weights and biases."""
        parts = np.split(theta, self.ends[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, self.shapes, strict=True)]

    def forward(self, theta, images):
        """Return the hidden layer and the logits."""
        weights, bias, last, last_bias = self.layers(theta)
        hidden = np.tanh(images @ weights + bias)
        return hidden, hidden @ last + last_bias

    def pulls(self, theta, images, label):
        """Return the hidden layer and the derivatives of log-likelihoods by logits and units."""
        hidden, logits = self.forward(theta, images)
        probability = softmax(logits)
        target = np.where(np.arange(N_CLASSES + 1) == FAKE, 0.0, probability)
        target /= np.maximum(target.sum(axis=1, keepdims=True), 1e-12)
        target[label >= 0] = np.eye(N_CLASSES + 1)[label[label >= 0]]
        pull = target - probability
        return hidden, pull, (pull @ self.layers(theta)[2].T) * (1.0 - hidden**2)

    def per_record(self, theta, records):
        """Return one gradient per record, for the chain to clip."""
        images, label, weight = records
        hidden, pull, inner = self.pulls(theta, images, label)
        pull, inner = weight * pull, weight * inner
        first = (images[:, :, None] * inner[:, None, :]).reshape(len(images), -1)
        last = (hidden[:, :, None] * pull[:, None, :]).reshape(len(images), -1)
        return np.concatenate([first, inner, last, pull], axis=1)

    def mean(self, theta, images, label):
        """Return the mean gradient of records that need no protection."""
        hidden, pull, inner = self.pulls(theta, images, label)
        parts = (images.T @ inner).ravel(), inner.sum(0), (hidden.T @ pull).ravel(), pull.sum(0)
        return np.concatenate(parts) / len(images)


class Generator:
    """A hidden layer of 64 that turns noise into images and wants them to be called real."""

    def __init__(self, n_pixels, rng):
        self.rng = rng
        first, last = rng.standard_normal((16, 64)) / 4.0, rng.standard_normal((64, n_pixels)) / 8.0
        self.layers = [first, np.zeros(64), last, np.full(n_pixels, -1.0)]
        self.slopes = [np.zeros_like(part) for part in self.layers]
        self.squares = [np.zeros_like(part) for part in self.layers]

    def make(self, count):
        """Return noise, the hidden layer and images."""
        noise = self.rng.standard_normal((count, 16))
        hidden = np.tanh(noise @ self.layers[0] + self.layers[1])
        return noise, hidden, 1.0 / (1.0 + np.exp(-(hidden @ self.layers[2] + self.layers[3])))

    def learn(self, discriminator, theta):
        """Take a step of Adam against a released state of the discriminator."""
        noise, hidden, images = self.make(128)
        _, _, inner = discriminator.pulls(theta, images, np.full(128, UNLABELED))
        pull = (inner @ discriminator.layers(theta)[0].T) * images * (1.0 - images)
        back = (pull @ self.layers[2].T) * (1.0 - hidden**2)
        found = [noise.T @ back, back.sum(0), hidden.T @ pull, pull.sum(0)]
        for part, slope, square, gradient in zip(
            self.layers, self.slopes, self.squares, found, strict=True
        ):
            slope += 0.5 * (gradient / 128 - slope)
            square += 0.01 * ((gradient / 128) ** 2 - square)
            part += 2e-3 * slope / (np.sqrt(square) + 1e-8)


# %%
# The chain
# ---------
# ``chain`` asks for the gradient of the prior once a step, at a state that it has released. That is
# where the generator learns and where its images, and labeled ones that are public, have their say.
# Labeled images, those without a label and the generator's have the same weight together. Where
# labels are protected a labeled image may pull with all of the clipping norm, and others with a
# share of it.
def run(epsilon, labels_protected, seed=0):
    """Return the accuracy on test images and what the generator makes at the end."""
    rng = np.random.default_rng(seed)
    discriminator, generator = Discriminator(X.shape[1]), Generator(X.shape[1], rng)
    first = 0 if labels_protected else N_LABELED
    n = len(X) - first
    together = N_LABELED if labels_protected else n
    weight = np.where(label == UNLABELED, together / n, 1.0)[:, None]

    def prior(theta):
        generator.learn(discriminator, theta)
        fakes = generator.make(200)[2]
        gradient = together * discriminator.mean(theta, fakes, np.full(200, FAKE)) - theta
        if not labels_protected:
            gradient += together * discriminator.mean(theta, X[:N_LABELED], label[:N_LABELED])
        return gradient

    drawn = chain(
        discriminator.per_record,
        prior,
        discriminator.start(rng),
        (X[first:], label[first:], weight[first:]),
        clip_norm=1.0,
        step_size=(0.05 / together) ** 0.5,
        epsilon=epsilon,
        delta=1e-5,
        adjacency="zero_out",
        sampler={"kind": "sghmc", "temperature": 1e-3},
        n_steps=n_steps,
        batch_size=batch_size,
        tail=0.25,
        n_kept=10,
        random_state=seed,
    )
    states = [softmax(discriminator.forward(theta, X_test)[1][:, :FAKE]) for theta in drawn.draws]
    return np.mean(np.mean(states, axis=0).argmax(axis=1) == y_test), generator.make(8)[2]


found, made = {}, {}
for labels_protected in (True, False):
    protected = "all records" if labels_protected else "images without a label"
    for epsilon in (*EPSILONS, np.inf):
        if labels_protected or not quick or epsilon != np.inf:
            found[protected, epsilon], made[protected, epsilon] = run(epsilon, labels_protected)
            print(f"{protected}, epsilon {epsilon:g}: {found[protected, epsilon]:.3f}", flush=True)

# %%
# What is reached, and why
# ------------------------
# The noise on a sum is the same for a hundred labels as for all records. If labels are protected,
# a hundred gradients of length at most 1 are all that a step can learn of digits; at ε = 0.2 the
# noise on every coordinate, averaged over the whole chain, is as long as sixteen of them, there are
# thousands of coordinates, and neither steps nor batches can be chosen to make it less. If the
# labels are public, they teach what they teach alone, and noise is a loss against them that a
# larger table makes small. What images without a label add is little: such a generator learns
# coarse shapes, and the tricks that made semi-supervised networks accurate (matching the means of
# real features) show real images to the generator and would have to be paid for.
assert found["all records", 0.2] < min(baseline, found["images without a label", 0.2])
fig, axes = plt.subplots(1, 2, figsize=(9, 3.4), width_ratios=(3, 2), layout="constrained")
for protected in dict.fromkeys(protected for protected, _ in found):
    shown = [found[protected, epsilon] for epsilon in EPSILONS]
    axes[0].semilogx(EPSILONS, shown, "o-", label=f"protected: {protected}")
axes[0].axhline(baseline, color="gray", linestyle=":", label="100 labels alone, not private")
axes[0].set(xlabel="ε (δ = 1e-5, zeroed out)", ylabel="accuracy on test images", ylim=(0.0, 1.0))
axes[0].legend(fontsize=8)
rows = [made["images without a label", epsilon].reshape(8, side, side) for epsilon in EPSILONS]
axes[1].imshow(np.vstack([np.hstack(list(images)) for images in rows]), cmap="gray_r")
axes[1].set_xticks([])
axes[1].set_yticks(side * (np.arange(3) + 0.5), [f"ε = {epsilon:g}" for epsilon in EPSILONS])
_ = axes[1].set_title("made by the generator", fontsize=9)
