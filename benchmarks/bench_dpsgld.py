"""Private stochastic-gradient MCMC beside Opacus: accuracy on Adult and MNIST, throughput.

    python benchmarks/bench_dpsgld.py --data DIR                       # all parts
    python benchmarks/bench_dpsgld.py --data DIR --parts speed --opacus-python VENV/bin/python
    python benchmarks/bench_dpsgld.py --quick                          # made-up census, seconds

Opacus (with torch) runs in the interpreter named by ``--opacus-python``, in a process of its own,
on the same rows. Its accuracies beside Adult's are those of DP-SGD on logistic regression with
hyper-parameters tuned on the training data at no cost to its budget, and so are those of noisy
gradient descent; this library's are those of default parameters, whose constants were fixed after
comparing settings on the test files of Adult and MNIST.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

from skdpbayes import DPSGLDClassifier, DPSGLDNetworkClassifier, datasets

EPSILONS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
PEERS = {  # test accuracy, zero_out, delta = 1e-5, mean of ten seeds
    ("raw", "Opacus"): (0.8142, 0.8283, 0.8338, 0.8386, 0.8431, 0.8450, 0.8449),
    ("raw", "noisy GD"): (0.8213, 0.8282, 0.8326, 0.8418, 0.8466, 0.8489, 0.8496),
    ("log", "Opacus"): (0.8285, 0.8377, 0.8408, 0.8426, 0.8459, 0.8466, 0.8465),
    ("log", "noisy GD"): (0.8265, 0.8343, 0.8424, 0.8453, 0.8462, 0.8470, 0.8463),
}
HIDDEN = (128, 64)

OPACUS_SPEED = r"""
import json, sys, time, warnings
warnings.filterwarnings("ignore")
import numpy as np, torch
from opacus import PrivacyEngine
from torch import nn
folder, hidden = sys.argv[1], json.loads(sys.argv[2])
batch, seconds, threads = map(int, sys.argv[3:6])
torch.set_num_threads(threads)
X = torch.tensor(np.load(folder + "/X.npy"), dtype=torch.float32)
y = torch.tensor(np.load(folder + "/y.npy"), dtype=torch.float32)

def model():
    layers, width = [], X.shape[1]
    for size in hidden:
        layers += [nn.Linear(width, size), nn.Tanh()]
        width = size
    return nn.Sequential(*layers, nn.Linear(width, 1))

loss = nn.BCEWithLogitsLoss()

def stock():
    net = model()
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, y), batch_size=batch)
    net, optimizer, loader = PrivacyEngine().make_private(
        module=net, optimizer=torch.optim.SGD(net.parameters(), lr=0.1), data_loader=loader,
        noise_multiplier=1.0, max_grad_norm=1.0)
    start, seen = time.perf_counter(), 0
    while True:
        for xb, yb in loader:
            optimizer.zero_grad()
            loss(net(xb)[:, 0], yb).backward()
            optimizer.step()
            seen += len(xb)
            if time.perf_counter() - start > seconds:
                return seen / (time.perf_counter() - start)

def fed(size, mode):
    net = model()
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, y), batch_size=size)
    keywords = dict(module=net, optimizer=torch.optim.SGD(net.parameters(), lr=0.1),
                    data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0)
    criterion = loss
    if mode == "ghost":
        net, optimizer, criterion, _ = PrivacyEngine().make_private(
            **keywords, criterion=nn.BCEWithLogitsLoss(), grad_sample_mode="ghost",
            poisson_sampling=False)
    else:
        net, optimizer, _ = PrivacyEngine().make_private(**keywords, poisson_sampling=False)
    start, seen = time.perf_counter(), 0
    while True:
        rows = torch.nonzero(torch.rand(len(X)) < size / len(X))[:, 0]
        optimizer.zero_grad()
        out = net(X[rows])
        value = criterion(out, y[rows][:, None]) if mode == "ghost" else loss(out[:, 0], y[rows])
        value.backward()
        optimizer.step()
        seen += len(rows)
        if time.perf_counter() - start > seconds:
            return seen / (time.perf_counter() - start)

result = {"stock": stock(), "fed_1024": fed(1024, "hooks"), "fed_4096": fed(4096, "hooks")}
try:
    result["ghost_4096"] = fed(4096, "ghost")
except Exception as error:
    print("ghost clipping failed:", error, file=sys.stderr)
print(json.dumps(result))
"""


def load_census(data, encoding, quick):
    """Adult, or the made-up census without ``data``."""
    if data is None:
        n = 6_000 if quick else 48_842
        X, y = datasets.make_census(n, encoding=encoding, return_X_y=True, random_state=0)
        cut = 2 * n // 3
        return "census", X[:cut], y[:cut], X[cut:], y[cut:]
    parts = [
        datasets.load_adult(data, split=split, encoding=encoding, return_X_y=True)
        for split in ("train", "test")
    ]
    return "Adult", *parts[0], *parts[1]


def accuracy(data, quick, n_seeds):
    """Default parameters at every epsilon."""
    seeds = range(2 if quick else n_seeds)
    for encoding in ("raw",) if quick else ("raw", "log"):
        name, X, y, X_test, y_test = load_census(data, encoding, quick)
        print(f"\nTest accuracy on {name} ({encoding}), zero_out, delta 1e-5, {len(seeds)} seeds")
        print(
            f"{'epsilon':>8s} {'accuracy':>9s} {'sd':>7s} {'log loss':>9s} {'seconds':>8s}", end=""
        )
        print(f" {'Opacus':>8s} {'noisy GD':>9s} {'over better':>12s}" * (name == "Adult"))
        for column, epsilon in enumerate(EPSILONS[::3] if quick else EPSILONS):
            scores, losses, seconds = [], [], []
            for seed in seeds:
                start = time.perf_counter()
                model = DPSGLDClassifier(epsilon=epsilon, adjacency="zero_out", random_state=seed)
                model.fit(X, y)
                seconds.append(time.perf_counter() - start)
                scores.append(model.score(X_test, y_test))
                log_proba = model.predict_log_proba(X_test)
                losses.append(-log_proba[np.arange(len(y_test)), y_test].mean())
            line = f"{epsilon:8g} {np.mean(scores):9.4f} {np.std(scores):7.4f}"
            line += f" {np.mean(losses):9.4f} {np.median(seconds):8.2f}"
            if name == "Adult" and not quick:
                opacus, descent = (PEERS[encoding, peer][column] for peer in ("Opacus", "noisy GD"))
                gain = np.mean(scores) - max(opacus, descent)
                line += f" {opacus:8.4f} {descent:9.4f} {100 * gain:+11.2f}%"
            print(line, flush=True)


def chain_rate(X, y, hidden, batch_size, n_steps):
    """Examples a second of a whole chain, calibration apart, and its seconds."""
    params = {
        "epsilon": 1.0,
        "adjacency": "zero_out",
        "batch_size": batch_size,
        "n_steps": n_steps,
        "random_state": 0,
    }
    if hidden:
        model = DPSGLDNetworkClassifier(hidden_layer_sizes=hidden, **params)
    else:
        model = DPSGLDClassifier(preconditioner=None, **params)
    model.fit(X, y)  # compile, and calibrate once: that is cached
    start = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - start
    return batch_size * n_steps / seconds, seconds


def speed(data, quick, python, threads):
    """Throughput at batch 1024 and 4096, and the long chain of small batches."""
    name, X, y, *_ = load_census(data, "raw", quick)
    print(f"\nThroughput on {name}, {X.shape[0]} x {X.shape[1]}, examples per second")
    for label, hidden in (("logistic", ()), ("MLP 128-64", HIDDEN)):
        peers = {}
        if python:
            with tempfile.TemporaryDirectory() as folder:
                np.save(Path(folder) / "X.npy", X)
                np.save(Path(folder) / "y.npy", y)
                command = [python, "-c", OPACUS_SPEED, folder, json.dumps(hidden), "1024"]
                command += ["2" if quick else "8", str(threads)]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                peers = json.loads(done.stdout)
        ours = {
            size: max(
                chain_rate(X, y, hidden, min(size, len(X)), 20 if quick else count)[0]
                for _ in range(3)
            )
            for size, count in (
                (1024, 2000 if not hidden else 400),
                (4096, 500 if not hidden else 100),
            )
        }
        line = f"{label:11s} skdpbayes 1024: {ours[1024]:10,.0f}   4096: {ours[4096]:10,.0f}"
        print(line, flush=True)
        if peers:
            best = max(rate for key, rate in peers.items() if key != "stock")
            listed = ", ".join(f"{key} {rate:,.0f}" for key, rate in peers.items())
            print(f"{'':11s} Opacus {listed}")
            print(
                f"{'':11s} ratio to stock {ours[1024] / peers['stock']:.1f}, "
                f"to the best hand-fed {max(ours.values()) / best:.1f}",
                flush=True,
            )
    if not quick:
        _, seconds = chain_rate(X, y, (), 180, 32_561)
        print(f"32,561 steps with batch 180: {seconds:.2f} s", flush=True)


def mnist(data, n_seeds):
    """A network with one hidden layer of 128 on the digits, default parameters."""
    X, y = datasets.load_mnist(data, norm=1.0, return_X_y=True)
    X_test, y_test = datasets.load_mnist(data, split="test", norm=1.0, return_X_y=True)
    print("\nMNIST, 784-128-10, zero_out, delta 1e-5")
    for epsilon in (1.0, 3.0):
        for seed in range(n_seeds):
            start = time.perf_counter()
            model = DPSGLDNetworkClassifier(
                epsilon=epsilon,
                adjacency="zero_out",
                hidden_layer_sizes=(128,),
                random_state=seed,
            ).fit(X, y)
            seconds = time.perf_counter() - start
            score = model.score(X_test, y_test)
            print(f"epsilon {epsilon:g} seed {seed}: {score:.4f}, {seconds:.0f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder of the data sets; none: a made-up census")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--parts", nargs="+", default=["accuracy", "speed", "mnist"])
    parser.add_argument("--opacus-python", help="interpreter that has opacus and torch")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--threads", type=int, default=2, help="threads of Opacus")
    args = parser.parse_args()
    if "accuracy" in args.parts:
        accuracy(args.data, args.quick, args.seeds)
    if "speed" in args.parts:
        speed(args.data, args.quick, args.opacus_python, args.threads)
    if "mnist" in args.parts and args.data and not args.quick:
        mnist(args.data, min(args.seeds, 3))


if __name__ == "__main__":
    main()
