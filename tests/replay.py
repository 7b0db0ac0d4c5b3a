"""Record everything noisy that a fit does on one data set; replay the same outputs on a neighbor.

On the data set *D* a fit runs with recording hooks at every place where data meet noise. On the
neighbor *D'* it runs again with the same seed, and every hook returns what was recorded. Then

- the sequence of places, their shapes and their public numbers (scales, steps, ...) must be equal,
- everything the fit leaves behind must be equal: what was not released would differ,
- at each place the distance between what *D* and *D'* would have put under the noise must be
  within the sensitivity that the claim is computed from.

Where noise is added at the end (counts, grid releases) the output is recorded. Where it enters
inside an algorithm, the equivalent is measured:

- objective perturbation: the linear term that gives the same minimizer on *D'* differs by the
  change of the gradient at the minimizer; the neighbor is really solved with it;
- output perturbation: the distance of the minimizers;
- Langevin chains: the gradients of both data sets at every point of the recorded chain;
- stochastic-gradient chains: the sums of clipped gradients at every recorded point and batch;
- draws from an exponential mechanism: the range of the difference of the log-densities over
  random points and the recorded draws, or on the whole space its largest slope;
- draws of probabilities and of hidden states from exact counts: the range of the difference of
  their log-densities, draw by draw. Everything around these draws runs on *D'* itself.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np
from scipy import sparse

from skdpbayes import models, randomness, samplers
from skdpbayes.estimators.chain.potential import LinearPotential
from skdpbayes.estimators.hmm import gibbs
from skdpbayes.estimators.naive_bayes import ops as naive_bayes_ops
from skdpbayes.estimators.network.potential import NetworkPotential
from skdpbayes.estimators.objective import estimator as objective_perturbation
from skdpbayes.estimators.objective import solver as _objective_solver
from skdpbayes.estimators.ops import sampling as ops_sampling

NORMS = {"release_laplace": 1, "release_gaussian": 2, "release_counts": None}


@dataclass
class Entry:
    """What one place did on D: its name, public numbers, and what the neighbor is held against."""

    place: str
    public: tuple[Any, ...]
    held: Any
    output: Any


@dataclass
class Distance:
    """How far two data sets are apart at one place; ``scale`` is the noise there, if any."""

    place: str
    distance: float
    scale: float = np.nan
    bound: float = np.nan


@dataclass
class Tape:
    """The recorded fit, and the distances measured when it is replayed."""

    entries: list[Entry] = field(default_factory=list)
    distances: list[Distance] = field(default_factory=list)
    replaying: bool = False
    position: int = 0

    def visit(
        self,
        place: str,
        public: tuple[Any, ...],
        held: Any,
        run: Callable[[], Any],
        compare: Callable[[Entry], Distance],
    ) -> Any:
        """Record an output, or compare with the recorded one and return it."""
        if not self.replaying:
            output = run()
            self.entries.append(Entry(place, public, held, output))
            return output
        assert self.position < len(self.entries), f"the neighbor visits {place} once more"
        entry = self.entries[self.position]
        self.position += 1
        assert (place, public) == (entry.place, entry.public), "control flow depends on the data"
        self.distances.append(compare(entry))
        return entry.output


def _release_hook(tape: Tape, name: str) -> Callable[..., Any]:
    original = getattr(randomness, name)

    def hook(generator: Any, values: Any, scale: float, **kwargs: Any) -> Any:
        values = np.array(values)
        order = NORMS[name] or (1 if kwargs["noise"] == "laplace" else 2)

        def compare(entry: Entry) -> Distance:
            original(generator, values, scale, **kwargs)  # use up the same random words
            gap = float(np.linalg.norm((values - entry.held).ravel(), order))
            return Distance(f"{name} L{order}", gap, float(scale))

        # where rounding is in the noise, its last digits differ if a deleted record changes n
        public = (values.shape, f"{scale:.12g}", tuple(kwargs.items()))
        run = lambda: original(generator, values, scale, **kwargs)  # noqa: E731
        return tape.visit(name, public, values, run, compare)

    return hook


def _minimize_hook(tape: Tape) -> Callable[..., Any]:
    original = _objective_solver.minimize

    def gradient(theta: Any, block: Any, problem: Any) -> Any:
        X, unit = block.X, problem.grid.row_unit  # rows as the fit reads them, but in plain floats
        if sparse.issparse(X):
            X = X.copy()
            X.data = np.trunc(X.data / unit) * unit
        else:
            X = np.trunc(X / unit) * unit
        table = theta.reshape(problem.n_outputs, problem.n_features)
        how = (table, problem.loss, (1,), problem.constant, None)
        total = models.derivatives(block._replace(X=X), *how)
        return models.read_derivatives(total, *how)[1].ravel()

    def hook(block: Any, problem: Any, plan: Any, tilt: Any) -> Any:
        data = (block, problem)

        def run() -> Any:
            return original(*data, plan, tilt)

        def compare(entry: Entry) -> Distance:
            theta, first = entry.output, entry.held
            most = problem.shift * problem.gradient_norm
            if plan.tilt_scale == 0.0:  # output perturbation
                gap = float(np.linalg.norm(run() - theta))
                bound = (most + 2.01 * plan.tolerance) / plan.penalty
                return Distance("minimizer", gap, plan.blur_scale or plan.release_scale, bound)
            change = first(theta) - gradient(theta, *data)
            # with this linear term the neighbor's minimizer is the same, up to the tolerance
            again = original(*data, plan, tilt + change)
            assert np.linalg.norm(again - theta) <= 2.01 * plan.tolerance / plan.penalty
            parts = (np.maximum(change, 0.0), np.minimum(change, 0.0))
            parts = parts if plan.two_orthants else (change,)
            gap = sum(float(np.linalg.norm(part)) for part in parts)
            return Distance("tilt", gap, plan.tilt_scale, most)

        held = lambda theta: gradient(theta, *data)  # noqa: E731
        return tape.visit("minimize", (problem, plan), held, run, compare)

    return hook


def _langevin_hook(tape: Tape) -> Callable[..., Any]:
    def hook(theta: Any, gradients: Any, noises: Any, **how: Any) -> Any:
        gradients = list(gradients)
        points: list[Any] = []

        def run() -> Any:
            point = theta
            for gradient, noise in zip(gradients, noises, strict=True):
                points.append((point, gradient(point)))
                point = samplers.langevin_step(point, points[-1][1], noise, **how)
            return point

        def compare(entry: Entry) -> Distance:
            gaps = [
                np.linalg.norm(gradient(point) - value)
                for gradient, (point, value) in zip(gradients, entry.held, strict=True)
            ]
            return Distance("langevin gradient", float(max(gaps)) / len(gradients))

        return tape.visit("langevin", (len(gradients), tuple(how.items())), points, run, compare)

    return hook


def _gradients_hook(tape: Tape, kind: type) -> Callable[..., Any]:
    original = kind.gradients

    def hook(potential: Any, position: Any, rows: Any) -> Any:
        clip_norm = potential.clip_norm

        def run() -> Any:
            return original(potential, position, rows)

        def compare(entry: Entry) -> Distance:
            same = rows is None or np.array_equal(rows, entry.held[1])
            assert same, "batches depend on the data"
            np.testing.assert_array_equal(position, entry.held[0])
            gap = float(np.linalg.norm(run()[0] - entry.output[0]))
            return Distance("clipped sum", gap / clip_norm)

        held = (np.array(position), None if rows is None else np.array(rows))
        output = tape.visit("clipped sum", (float(clip_norm),), held, run, compare)
        return tuple(part.copy() for part in output)  # the chain adds its noise in place

    return hook


def _draw_hook(tape: Tape, original: Callable[..., Any]) -> Callable[..., Any]:
    """Exponential mechanism: the log-densities of D and D' differ by a bounded range or slope."""

    def hook(target: Any, n_draws: int, *args: Any, **kwargs: Any) -> Any:
        def run() -> Any:
            return original(target, n_draws, *args, **kwargs)

        def compare(entry: Entry) -> Distance:
            draws = entry.output[0] if isinstance(entry.output, tuple) else entry.output
            rng = np.random.default_rng(0)
            directions = rng.normal(size=(4000, target.dimension))
            directions /= np.linalg.norm(directions, axis=1, keepdims=True)
            bounded = np.isfinite(target.radius)
            size = target.radius if bounded else 10.0 * np.abs(draws).max()
            radii = size * rng.random((4000, 1)) ** 0.25  # the boundary tells most
            points = np.vstack([directions * radii, draws.reshape(n_draws, -1)])
            first = entry.held
            if bounded:
                gaps = target.potential_value(points) - first.potential_value(points)
                return Distance("range of the log-density", n_draws * float(np.ptp(gaps)))
            # Gopi, Lee and Liu: mu is the slope over the root of the convexity, beta / C
            gaps = target.potential_gradient(points) - first.potential_gradient(points)
            slope = float(np.linalg.norm(gaps, axis=1).max())
            mu = slope / np.sqrt(target.inverse_temperature / target.C)
            return Distance("slope of the log-density", float(np.sqrt(n_draws) * mu))

        return tape.visit("draw", (n_draws,), target, run, compare)

    return hook


def _with_words(
    tape: Tape,
    place: str,
    generator: np.random.Generator,
    held: Any,
    run: Callable[[], Any],
    compare: Callable[[Entry], Distance],
    public: tuple[Any, ...],
) -> Any:
    """Visit a place that uses up random words; on the neighbor the same number of them is gone."""

    def run_and_mark() -> Any:
        output = run()
        return output, generator.bit_generator.state

    output, state = tape.visit(place, public, held, run_and_mark, compare)
    generator.bit_generator.state = state
    return output


def _probabilities_hook(tape: Tape) -> Callable[..., Any]:
    """Tables of naive Bayes, each row a draw from a Dirichlet density with a floor."""
    original = naive_bayes_ops.draw_floored_dirichlet

    def hook(parameter: Any, floor: float, most: float, generator: Any) -> Any:
        def compare(entry: Entry) -> Distance:
            # the range of sum_v c_v log p_v: every coefficient at its best and at its worst
            change = parameter - entry.held
            gap = sum(_range_of_logarithms(row, floor) for row in change)
            return Distance("range of a table", float(gap))

        run = lambda: original(parameter, floor, most, generator)  # noqa: E731
        held, public = np.array(parameter), (parameter.shape, floor)
        return _with_words(tape, "table", generator, held, run, compare, public)

    return hook


def _range_of_logarithms(change: np.ndarray, floor: float) -> float:
    """Range of ``change @ log p`` over probabilities of at least ``floor``, by brute force."""
    size = change.shape[0]
    vertices = np.full((size, size), floor) + (1.0 - size * floor) * np.eye(size)
    inside = np.random.default_rng(0).dirichlet(np.ones(size), 500) * (1.0 - size * floor) + floor
    return float(np.ptp(np.log(np.vstack([vertices, inside])) @ change))


def _emission_hook(tape: Tape) -> Callable[..., Any]:
    """Shares of pairs of values: a pair's log-odds move by at most the logarithm of the floor."""
    original = gibbs.redraw_pairs

    def hook(emission: Any, totals: Any, prior: Any, floors: Any, generator: Any) -> Any:
        def compare(entry: Entry) -> Distance:
            change = totals - entry.held[1]
            np.testing.assert_array_equal(emission, entry.held[0])
            fields = zip(prior.begin[:-1], prior.begin[1:], floors, strict=True)
            gap = sum(
                _range_of_logarithms(row[low:high], floor)
                for low, high, floor in fields
                for row in change
            )
            return Distance("range of an update", float(gap))

        run = lambda: original(emission, totals, prior, floors, generator)  # noqa: E731
        held, public = (np.array(emission), np.array(totals)), (emission.shape,)
        return _with_words(tape, "emissions", generator, held, run, compare, public)

    return hook


def _states_hook(tape: Tape, name: str, place: int) -> Callable[..., Any]:
    """Hidden states: their log-likelihoods differ by a range, summed over the steps."""
    original = getattr(samplers, name)

    def hook(*args: Any) -> Any:
        log_like = np.array(args[place])

        def compare(entry: Entry) -> Distance:
            return Distance("range of an update", float(np.ptp(log_like - entry.held, 1).sum()))

        run = lambda: original(*args)  # noqa: E731
        return tape.visit(name, (log_like.shape,), log_like, run, compare)

    return hook


@contextlib.contextmanager
def hooks(tape: Tape) -> Iterator[None]:
    """Put a hook at every place where data meet noise."""
    with contextlib.ExitStack() as stack:

        def patch(owner: Any, name: str, hook: Any) -> None:
            stack.enter_context(mock.patch.object(owner, name, hook))

        for name in NORMS:
            patch(randomness, name, _release_hook(tape, name))
        patch(objective_perturbation, "minimize", _minimize_hook(tape))
        patch(samplers, "langevin_chain", _langevin_hook(tape))
        for kind in (LinearPotential, NetworkPotential):
            patch(kind, "gradients", _gradients_hook(tape, kind))
        for name in ("draw_rejection", "draw_hmc"):
            patch(ops_sampling, name, _draw_hook(tape, getattr(ops_sampling, name)))
        patch(naive_bayes_ops, "draw_floored_dirichlet", _probabilities_hook(tape))
        patch(gibbs, "redraw_pairs", _emission_hook(tape))
        for name, place in (("sample_states_ffbs", 0), ("sweep_states_collapsed", 1)):
            patch(samplers, name, _states_hook(tape, name, place))
        yield


def replay(make: Callable[[], Any], data: Any, neighbor: Any) -> tuple[Any, Any, Tape]:
    """Fit on `data`, then on `neighbor` with the same outputs; both fits must be seeded."""
    tape = Tape()
    messages = []
    fits = []
    for arguments in (data, neighbor):
        with warnings.catch_warnings(record=True) as caught, hooks(tape):
            warnings.simplefilter("always")
            fits.append(make().fit(*arguments))
        said = [str(warning.message) for warning in caught]
        if len(data[0]) != len(neighbor[0]):  # the number of records is public, and may be quoted
            said = [re.sub(r"[0-9][0-9.e+-]*", "#", words) for words in said]
        messages.append(said)
        tape.replaying = True
    assert messages[0] == messages[1], "warnings depend on the data"
    assert tape.position == len(tape.entries), "the neighbor skips a release"
    assert tape.entries, "no release was recorded: the harness does not know this mechanism"
    return fits[0], fits[1], tape


def differing_state(first: Any, second: Any, tolerance: float = 0.0) -> set[str]:
    """Names of fitted attributes that differ, by more than a relative tolerance of their numbers.

    Parameters are left out. Fields of the posterior have dotted names.
    """
    params = set(first.get_params())
    states = [
        _flat({name: value for name, value in vars(fitted).items() if name not in params})
        for fitted in (first, second)
    ]
    return {
        name
        for name in set(states[0]) | set(states[1])
        if not _equal(*(state.get(name, None) for state in states), tolerance)
    }


def _flat(state: dict[str, Any]) -> dict[str, Any]:
    """Open dataclasses that compare by identity, as posteriors do, into their fields."""
    flat: dict[str, Any] = {}
    for name, value in state.items():
        if dataclasses.is_dataclass(value) and type(value).__eq__ is object.__eq__:
            flat |= _flat({f"{name}.{key}": part for key, part in vars(value).items()})
        else:
            flat[name] = value
    return flat


def _equal(a: Any, b: Any, tolerance: float) -> bool:
    if isinstance(a, (np.ndarray, float)) or isinstance(b, (np.ndarray, float)):
        if a is None or b is None or np.shape(a) != np.shape(b):
            return False
        if np.asarray(a).dtype.kind != "f":
            return np.array_equal(a, b)
        return np.allclose(a, b, rtol=tolerance, atol=0.0, equal_nan=True)
    if isinstance(a, dict):
        same = isinstance(b, dict) and a.keys() == b.keys()
        return same and all(_equal(a[k], b[k], tolerance) for k in a)
    if isinstance(a, (list, tuple)):
        same = isinstance(b, type(a)) and len(a) == len(b)
        return same and all(_equal(x, y, tolerance) for x, y in zip(a, b, strict=True))
    if hasattr(a, "__dict__") and type(a) is type(b) and type(a).__eq__ is object.__eq__:
        return _equal(vars(a), vars(b), tolerance)
    return bool(a == b)
