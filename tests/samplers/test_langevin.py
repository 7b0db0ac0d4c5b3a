from __future__ import annotations

import numpy as np
import pytest

from skdpbayes.privacy import langevin_mu, langevin_mu_cyclic
from skdpbayes.samplers.langevin import langevin_chain, langevin_step, project_to_ball


def test_without_temperature_a_step_is_projected_gradient_descent():
    theta, gradient = np.array([[1.0, 2.0]]), np.array([[0.5, -1.0]])
    noise = np.full((1, 2), 1e9)
    moved = langevin_step(theta, gradient, noise, step_size=0.2, temperature=0.0)
    np.testing.assert_allclose(moved, [[0.9, 2.2]])
    inside = langevin_step(theta, gradient, noise, step_size=0.2, temperature=0.0, radius=1.0)
    np.testing.assert_allclose(inside, moved / np.linalg.norm(moved), rtol=1e-11)


def test_noise_enters_with_the_stated_scale():
    zero, noise = np.zeros(3), np.array([1.0, -2.0, 0.5])
    np.testing.assert_allclose(
        langevin_step(zero, zero, noise, step_size=0.5, temperature=4.0), 2.0 * noise
    )


def test_projection_never_leaves_the_ball():
    rng = np.random.default_rng(0)
    for point in rng.normal(size=(1000, 2, 7)) * 10:
        assert np.linalg.norm(project_to_ball(point, 0.3)) <= 0.3
    point = np.array([0.1, 0.2])
    assert project_to_ball(point, 0.3) is point


@pytest.mark.parametrize("n_steps", [1, 5, 50])
def test_privacy_formula_is_the_signal_to_noise_of_a_linear_loss(n_steps):
    """With linear losses the last iterate is normal; its shift over its deviation is mu."""
    step, strength, gap, beta = 0.05, 1.0, 0.7, 0.4
    steps = np.eye(n_steps)  # unit noise at one step at a time gives the response to it

    def run(slope, noises, temperature):
        gradients = [lambda theta: slope + strength * theta] * len(noises)
        return langevin_chain(
            np.zeros(1), gradients, noises, step_size=step, temperature=temperature
        )[0]

    shift = run(gap, np.zeros((n_steps, 1)), 0.0)
    response = [run(0.0, steps[:, [k]], 1.0 / beta) for k in range(n_steps)]
    ratio = abs(shift) / np.linalg.norm(response)
    expected = langevin_mu(step / beta, beta * strength, beta * gap, n_steps)
    assert ratio == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("n_batches", "n_epochs"), [(2, 3), (4, 5), (5, 2)])
@pytest.mark.parametrize("step", [0.02, 0.3])
def test_cyclic_formula_is_never_below_a_linear_loss(n_batches, n_epochs, step):
    """A lower bound: a linear loss visited in the last batch of every epoch."""
    strength, gap = 1.0, 1.0
    decay = (1 - step * strength) ** np.arange(n_batches * n_epochs)  # from the last step back
    shift = step * gap * decay[::n_batches].sum()
    deviation = np.sqrt(2 * step * np.sum(decay**2))
    bound = langevin_mu_cyclic(step, strength, gap, n_batches, n_epochs)
    assert shift / deviation <= bound * (1 + 1e-12)
    assert bound <= np.sqrt(step / 2) * gap * n_epochs  # visits simply added up


def test_projection_has_no_jump_at_the_sphere():
    """The privacy bound needs a map that never moves points apart, up to rounding."""
    direction = np.array([0.6, 0.8])
    norms = 5.0 * (1.0 + np.linspace(-3e-12, 3e-12, 601))
    images = np.array([np.linalg.norm(project_to_ball(norm * direction, 5.0)) for norm in norms])
    assert np.all(np.abs(np.diff(images)) <= np.diff(norms) + 4e-15)
