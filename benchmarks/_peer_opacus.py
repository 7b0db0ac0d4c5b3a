"""DP-SGD logistic regression by Opacus on rows handed over in a file; its own interpreter.

    python _peer_opacus.py JOB.json

Prints one JSON line per result. Step, momentum, clipping norm, batch, length and averaging of the
last half of the iterates are tuned for every epsilon on splits of the training rows, and nothing
is charged for that: it flatters the peer. Full batches (noisy gradient descent) are among the
choices. Tuning runs the same recursion with the clipping written out for a linear model, which is
several times faster; the rows that are reported are trained by Opacus. Batches are Poisson samples
cut from tensors in memory, many times faster than the stock loader.
"""

from __future__ import annotations

import json
import sys
import time
import warnings

import numpy as np
import opacus
import torch
from _metrics import scores, summarize, timed, tuning_split
from opacus.accountants.utils import get_noise_multiplier

FULL, SHORT, LONG = 1.0, 100, 300  # sampling rate, numbers of steps
# (step, momentum): from steps that hardly leave zero to the optimum in a hundred steps
STEPS = tuple((size, 0.0) for size in (0.5, 1.0, 2.0, 4.0))
STEPS += tuple((size, 0.9) for size in (1.0, 2.0, 4.0, 8.0, 16.0))
_multipliers = {}


def say(**row):
    print(json.dumps(row), flush=True)


def noise_multiplier(epsilon, delta, rate, n_steps):
    """Calibrate by the library's tightest accountant; the same for every seed."""
    key = (epsilon, delta, rate, n_steps)
    if key not in _multipliers:
        _multipliers[key] = get_noise_multiplier(
            target_epsilon=epsilon,
            target_delta=delta,
            sample_rate=rate,
            steps=n_steps,
            accountant="prv",
            epsilon_tolerance=0.002 * epsilon,
        )
    return _multipliers[key]


def train(X, y, epsilon, delta, seed, rate, n_steps, clip, step):
    """Return the last weights and the average of the last half of the run."""
    torch.manual_seed(seed)
    sigma = noise_multiplier(epsilon, delta, rate, n_steps)
    net = torch.nn.Linear(X.shape[1], 1, bias=False)
    torch.nn.init.zeros_(net.weight)
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(X, y), batch_size=round(rate * len(X))
    )
    sgd = torch.optim.SGD(net.parameters(), lr=step[0] / clip, momentum=step[1])
    net, optimizer, _ = opacus.PrivacyEngine().make_private(
        module=net,
        optimizer=sgd,
        data_loader=loader,
        noise_multiplier=sigma,
        max_grad_norm=clip,
        poisson_sampling=False,
    )
    criterion = torch.nn.BCEWithLogitsLoss()
    total, kept = torch.zeros(X.shape[1]), 0
    for count in range(n_steps):
        optimizer.zero_grad()
        if rate == FULL:
            rows_x, rows_y = X, y
        else:
            rows = torch.nonzero(torch.rand(len(X)) < rate)[:, 0]
            rows_x, rows_y = X[rows], y[rows]
        criterion(net(rows_x)[:, 0], rows_y).backward()
        optimizer.step()
        if 2 * count >= n_steps:
            total += net._module.weight.detach()[0]
            kept += 1
    return net._module.weight.detach()[0].clone(), total / kept


def train_quickly(X, y, norms, epsilon, delta, seed, rate, n_steps, clip, step):
    """Return what ``train`` returns, by the same steps without gradients of single records."""
    generator = torch.Generator().manual_seed(seed)
    deviation = clip * noise_multiplier(epsilon, delta, rate, n_steps)
    weights = velocity = total = torch.zeros(X.shape[1])
    for count in range(n_steps):
        rows_x, rows_y, lengths = X, y, norms
        if rate != FULL:
            rows = torch.nonzero(torch.rand(len(X), generator=generator) < rate)[:, 0]
            rows_x, rows_y, lengths = X[rows], y[rows], norms[rows]
        residual = torch.sigmoid(rows_x @ weights) - rows_y
        factor = torch.clamp(clip / (residual.abs() * lengths + 1e-12), max=1.0)
        noise = deviation * torch.randn(X.shape[1], generator=generator)
        gradient = (rows_x.T @ (residual * factor) + noise) / (rate * len(X))
        velocity = step[1] * velocity + gradient
        weights = weights - step[0] / clip * velocity
        if 2 * count >= n_steps:
            total = total + weights
    return weights, total / (n_steps - (n_steps + 1) // 2)


def evaluate(weights, X_test, y_test):
    return scores(y_test, torch.sigmoid(X_test @ weights).numpy())


def tune(job, tensors, epsilon):
    """Step and momentum, then clipping norm, then batch and length; averaging at each."""
    X, y, _, _ = tensors
    splits = []
    for seed in range(job["tuning_seeds"]):
        fit, score = map(torch.tensor, tuning_split(len(X), seed))
        inner = (X[fit], y[fit], X[fit].norm(dim=1))
        splits.append((inner, X[score], y[score].numpy()))
    reached = {}

    def judge(rate, n_steps, clip, step):
        found = {True: [], False: []}
        for seed, (rows, X_score, y_score) in enumerate(splits):
            weights = train_quickly(
                *(*rows, epsilon, job["delta"], 1000 + seed),
                *(rate, n_steps, clip, step),
            )
            for averaged, vector in zip((False, True), weights, strict=True):
                found[averaged].append(evaluate(vector, X_score, y_score)["accuracy"])
        for averaged, values in found.items():
            reached[rate, n_steps, clip, step, averaged] = np.mean(values)

    def leader():
        return max(reached, key=reached.get)

    for step in STEPS:
        judge(FULL, SHORT, 1.0, step)
    _, _, _, (size, momentum), _ = leader()
    for clip in (0.5, 0.25):  # a smaller bound asks for smaller steps on clipped gradients
        for factor in (1.0, 0.5):
            judge(FULL, SHORT, clip, (factor * size, momentum))
    _, _, clip, (size, momentum), _ = leader()
    rate = 4096 / len(X) if len(X) > 8192 else 0.25
    for factor in (1.0, 0.5):
        judge(rate, round(20 / rate), clip, (factor * size, momentum))
        judge(FULL, LONG, clip, (factor * size, momentum))
    return leader()


def accuracy(job, tensors):
    X, y, X_test, y_test = tensors
    for epsilon in job["epsilons"]:
        rate, n_steps, clip, step, averaged = tune(job, tensors, epsilon)
        runs = []
        for seed in range(job["seeds"]):
            weights, seconds = timed(
                train, X, y, epsilon, job["delta"], seed, rate, n_steps, clip, step
            )
            runs.append({**evaluate(weights[averaged], X_test, y_test), "seconds": seconds})
        settings = f"{n_steps} steps of {step[0] / clip:g}, batch {round(rate * len(X))}"
        settings += f", clip {clip:g}"
        settings += f", momentum {step[1]:g}" if step[1] else ""
        say(
            epsilon=epsilon,
            delta=job["delta"],
            method="Opacus DP-SGD, tuned",
            adjacency="zero_out",
            settings=settings + (", averaged" if averaged else ""),
            **summarize(runs),
        )


def speed(job, tensors):
    """Wall seconds of one training run at epsilon 1: 100 full-batch steps, noise calibrated."""
    X, y, _, _ = tensors
    noise_multiplier(1.0, job["delta"], FULL, SHORT)
    times = []
    for seed in range(job["repeats"]):
        start = time.perf_counter()
        train(X, y, 1.0, job["delta"], seed, FULL, SHORT, 1.0, STEPS[3])
        times.append(time.perf_counter() - start)
    say(seconds=min(times))


def main():
    warnings.simplefilter("ignore")
    with open(sys.argv[1]) as file:
        job = json.load(file)
    say(versions={"opacus": opacus.__version__, "torch": torch.__version__})
    torch.set_num_threads(job["threads"])
    data = np.load(job["data"])
    tensors = (
        torch.tensor(data["X"]).float(),
        torch.tensor(data["y"]).float(),
        torch.tensor(data["X_test"]).float(),
        data["y_test"],
    )
    {"accuracy": accuracy, "speed": speed}[job["task"]](job, tensors)


if __name__ == "__main__":
    main()
