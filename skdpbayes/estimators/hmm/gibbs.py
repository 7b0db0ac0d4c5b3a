r"""Posterior draws of a hidden Markov model as the release itself (``mechanism="ops"``).

**What is drawn.** States z, emissions :math:`\theta`, start and transition probabilities A from

.. math::
    p(z, \theta, A) \propto p(A)\, p(z \mid A)\, p(\theta)
    \prod_{e} \prod_d \theta_{z_{c(e)}, d, x_{ed}}^{\rho}, \qquad
    \theta_{kdv} \ge a_d = p_{\min} / V_d ,

where c(e) is the cell of event e. Data enter through :math:`\rho \sum_e \ell_e` alone, and
:math:`\ell(x, c; z, \theta) = \sum_d \log \theta_{z_c d x_d}` has range
:math:`\Delta = \sum_d \log((1 - (V_d - 1) a_d) / a_d)` whatever z is.

**Converged.** Replacing event (x, c) by (x', c') changes the log-density, before normalization, by
:math:`\rho(\ell(x', c') - \ell(x, c))`, of range at most :math:`\eta = 2\rho\Delta`; deleting it,
by a function of range :math:`\eta = \rho\Delta`. A draw of (z, :math:`\theta`, A) is an
exponential mechanism of bounded range :math:`\eta` (Foulds et al. 2016, Theorem 2 and Equation 15).
Each chain releases its last draw. The claim supposes that the chains have reached their stationary
law.

**Per update.** No such condition is needed if every update is priced and all of them are
published. Each is itself an exact draw from an exponential mechanism given the earlier ones:

- *States, one block* (``ffbs``): given :math:`(\theta, A)` the density of z is proportional to
  :math:`p(z \mid A) e^{\rho \sum_e \ell_e(z)}`. As a function of z the neighbor's score differs by
  :math:`\rho(\ell(x', c'; z) - \ell(x, c; z))`, which has range at most :math:`\eta`. The event's
  cell may move, to any other: both cells are in the one block. One update, bounded range
  :math:`\eta`.
- *States, one by one* (``collapsed``): the conditional of :math:`z_s` depends on the events of cell
  s only. Deleting an event touches one site, with range :math:`\rho\Delta`; replacing it within its
  cell touches one site with range :math:`2\rho\Delta`; moving it touches two with range
  :math:`\rho\Delta` each. A mechanism of range r is r-differentially private, so in all three cases
  the sweep is :math:`\eta`-differentially private.
- *Emissions*: given z a pass redraws, for disjoint pairs of values, how their total probability is
  shared. It is one draw from a density proportional to prior times
  :math:`e^{\rho \sum_e \ell_e(\theta)}` on the set that keeps the pairs' sums, which lies within
  the set of all :math:`\theta \ge a`: range at most :math:`\eta`.
- *Start and transitions* given z: the data do not enter.

So a sweep costs two updates, and everything that the chains produced may be published and averaged.
Starting values come from the prior. Composition is adaptive (Foulds et al. 2016, section 5).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from skdpbayes import models, randomness, samplers
from skdpbayes.estimators.hmm.chain import (
    Draws,
    Prior,
    Watch,
    combine_chains,
    draw_transitions,
    silent,
)
from skdpbayes.estimators.hmm.grid import Grid
from skdpbayes.estimators.hmm.plan import GibbsPlan

_PRIOR_PASSES = 30  # before the first sweep, from the prior: costs nothing
_GRID = 2.0**-32  # released probabilities are multiples of this


def run_on_events(
    counts: np.ndarray,
    grid: Grid,
    plan: GibbsPlan,
    generator: np.random.Generator,
    watch: Watch = silent,
) -> Draws:
    """Run the chains on the exact counts; what they return is released."""
    schedule = plan.schedule
    total = schedule.burn_in + schedule.n_iter
    kept = total - 1 if plan.converged else schedule.burn_in
    chains = [
        _run_chain(counts, grid, plan, watch(total, f"chain {number + 1}"), kept, source)
        for number, source in enumerate(randomness.spawn(generator, schedule.n_chains))
    ]
    return combine_chains(chains, plan.prior.n_states)


def _run_chain(
    counts: np.ndarray,
    grid: Grid,
    plan: GibbsPlan,
    sweeps: Iterable[int],
    first_kept: int,
    generator: np.random.Generator,
) -> Draws:
    """Run one chain on the exact counts and return the draws of sweeps from ``first_kept`` on."""
    prior = plan.prior
    tempered = counts * plan.inverse_temperature
    n_values = int(prior.begin[-1])
    states = np.zeros(grid.n_steps, dtype=np.int64)
    categories = np.diff(prior.begin)
    emission = np.tile(np.repeat(1.0 / categories, categories), (prior.n_states, 1))
    nothing = np.zeros((prior.n_states, n_values))
    for _ in range(_PRIOR_PASSES):
        emission = redraw_pairs(emission, nothing, prior, plan.floors, generator)
    start, transition = draw_transitions(states[:0], Grid(np.array([0]), False), prior, generator)
    kept = []
    for sweep in sweeps:
        log_like = models.count_log_likelihood(tempered, emission)
        uniforms = generator.random(grid.n_steps)
        if prior.state_sampler == "ffbs" or sweep == 0:
            # The first states have no predecessors to be redrawn from: they come as a block.
            states, _ = samplers.sample_states_ffbs(
                log_like, grid.starts, start, transition, uniforms
            )
        else:
            states = samplers.sweep_states_collapsed(
                states,
                log_like,
                grid.starts,
                float(prior.alpha_transition),
                prior.transition_parameter,
                uniforms,
            )
        totals = models.count_emissions(tempered, states, prior.n_states)
        emission = redraw_pairs(emission, totals, prior, plan.floors, generator)
        start, transition = draw_transitions(states, grid, prior, generator)
        if sweep >= first_kept:
            kept.append((start, transition, randomness.snap(emission, _GRID), states, 0.0))
    return Draws(*(np.array(column) for column in zip(*kept, strict=True)))


def redraw_pairs(
    emission: np.ndarray,
    totals: np.ndarray,
    prior: Prior,
    floors: np.ndarray,
    generator: np.random.Generator,
) -> np.ndarray:
    """Redraw the shares of disjoint random pairs of values, in every state and field."""
    firsts, seconds, lowest = [], [], []
    for d, (low, high) in enumerate(zip(prior.begin[:-1], prior.begin[1:], strict=True)):
        half = (high - low) // 2
        order = low + np.argsort(generator.random((prior.n_states, high - low)), axis=1)
        rows = np.arange(prior.n_states)[:, None] * emission.shape[1]
        firsts.append((rows + order[:, :half]).ravel())
        seconds.append((rows + order[:, half : 2 * half]).ravel())
        lowest.append(np.full(prior.n_states * half, floors[d]))
    first, second, floor = map(np.concatenate, (firsts, seconds, lowest))
    flat, parameter = emission.ravel().copy(), totals.ravel() + prior.alpha_emission
    total, bound = samplers.pair_log_odds(flat[first], flat[second], floor)
    log_odds = np.empty(first.shape[0])
    pending = np.arange(first.shape[0])
    while pending.size:
        drawn, accepted = samplers.propose_log_odds(
            parameter[first[pending]],
            parameter[second[pending]],
            bound[pending],
            generator.random((pending.size, 3)),
        )
        log_odds[pending[accepted]] = drawn[accepted]
        pending = pending[~accepted]
    flat[first] = total / (1.0 + np.exp(-log_odds))
    flat[second] = total / (1.0 + np.exp(log_odds))
    return flat.reshape(emission.shape)
