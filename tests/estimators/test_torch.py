"""DPSGLDTorchClassifier: gradients by record, layers that are refused, the estimator's contract."""

from __future__ import annotations

import inspect
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.utils.estimator_checks import check_estimator

from skdpbayes import PrivacyLedger, models
from skdpbayes.estimators.torch.estimator import PUBLIC_WEIGHTS, DPSGLDTorchClassifier
from skdpbayes.estimators.torch.function import make_function, one_torch_thread
from skdpbayes.estimators.torch.potential import ModulePotential
from skdpbayes.fitting.units import Members
from tests.contract import Case, linear_data
from tests.estimators import test_contract as contract
from tests.estimators import test_promises as promises

torch = pytest.importorskip("torch")
nn = torch.nn
pytestmark = pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PrivacyWarning")
DOCS = Path(__file__).parent.parent.parent / "docs"


def perceptron(n_features, n_classes):
    return nn.Sequential(nn.Linear(n_features, 8), nn.Tanh(), nn.Linear(8, n_classes))


def wide(n_features, n_classes):
    return nn.Sequential(nn.Linear(n_features, 50), nn.LayerNorm(50), nn.Linear(50, n_classes))


def convolution(n_features, n_classes):
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(), nn.Linear(144, n_classes)
    )


class Stateful(nn.Module):
    """Remembers what it has seen."""

    def __init__(self, n_features, n_classes):
        super().__init__()
        self.layer = nn.Linear(n_features, n_classes)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return self.layer(x) * self.calls


class Branching(nn.Module):
    """Looks at numbers, which vmap cannot."""

    def __init__(self, n_features, n_classes):
        super().__init__()
        self.layer = nn.Linear(n_features, n_classes)

    def forward(self, x):
        return self.layer(x) if x.sum().item() > 0 else -self.layer(x)


def images():
    X, y = load_digits(return_X_y=True)
    return (X / 16.0).astype(np.float32), y


@pytest.fixture(scope="module")
def fitted():
    X, y = linear_data()
    model = DPSGLDTorchClassifier(perceptron, 3.0, n_steps=20, random_state=0)
    return model.fit(X, y), X, y


@pytest.mark.parametrize("n_classes", [2, 3])
def test_gradients_are_those_of_our_own_network(n_classes):
    """Same perceptron, two implementations, to the rounding of single precision."""
    rng = np.random.default_rng(0)
    X, codes = rng.standard_normal((60, 5)).astype(np.float32), rng.integers(0, n_classes, 60)
    n_outputs = 1 if n_classes == 2 else n_classes
    function = make_function(perceptron(5, n_outputs), None, 5, n_classes)
    potential = ModulePotential(X, codes, function, 1.0, 0.3)
    found, _ = potential.gradients(function.start(), None)
    weights = function.split(function.start())
    ours = [weights["0.weight"].T, weights["0.bias"], weights["2.weight"].T, weights["2.bias"]]
    position = np.concatenate([part.ravel() for part in ours])
    expected = models.network_layers(
        models.clipped_network_gradient(position, (5, 8, n_outputs), X, codes, 0.3, "tanh"),
        (5, 8, n_outputs),
    )
    parts = function.split(found)
    for number, (weight, bias) in zip((0, 2), expected, strict=True):
        np.testing.assert_allclose(parts[f"{number}.weight"].T, weight, atol=2e-5)
        np.testing.assert_allclose(parts[f"{number}.bias"], bias, atol=2e-5)


@pytest.mark.parametrize("maker", [perceptron, convolution])
def test_a_records_gradient_does_not_depend_on_other_records(maker):
    X, y = images()
    shape = (1, 8, 8) if maker is convolution else None
    function = make_function(maker, shape, 64, 10)
    start = function.start()
    first = function.gradients(start, X[:8], y[:8])
    others = np.concatenate([X[:1], 1e6 * X[8:15]]), np.concatenate([y[:1], y[8:15]])
    second = function.gradients(start, *others)
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one[0], other[0])
        assert not np.array_equal(one[1], other[1])


def test_neighbors_differ_by_one_clipped_record_whatever_the_threads():
    """Replace one record of many by an extreme one: sums move by at most twice the norm."""
    X, y = (part[:600] for part in images())
    clip, function = 0.3, make_function(convolution, (1, 8, 8), 64, 10)
    start, far = function.start(), X.copy()
    far[300] = 1e4 * X[5]
    with one_torch_thread():
        sums = [
            ModulePotential(rows, y, function, 1.0, clip, n_threads).gradients(start, None)[0]
            for rows, n_threads in ((X, 1), (X, 2), (far, 1))
        ]
        potential = ModulePotential(X, y, function, 1.0, clip)
        alone, _ = potential.gradients(start, np.array([300]))
        without, _ = potential.gradients(start, np.delete(np.arange(len(X)), 300))
    np.testing.assert_array_equal(sums[0], sums[1])
    distance = np.linalg.norm(sums[0] - sums[2])
    assert 0.01 < distance <= 2.0 * clip + potential.rounding(len(X))
    # torch rounds differently in another place of a block; the clipped sums add up otherwise
    np.testing.assert_allclose(without + alone, sums[0], atol=1e-4)
    assert np.linalg.norm(alone) <= clip


@pytest.mark.parametrize("sampled", [None, np.arange(0, 90, 2)])
@pytest.mark.parametrize("module", [perceptron, wide])
def test_how_many_records_a_person_has_changes_no_bit_of_the_others(module, sampled):
    """The last bits of a row of a product depend on its place and on how many rows there are."""
    rng = np.random.default_rng(0)
    size = 64
    X, y = rng.standard_normal((300, size)).astype(np.float32), rng.integers(0, 3, 300)
    owner = np.append(np.arange(90), rng.integers(1, 90, 210))
    function, sums = make_function(module(size, 3), None, size, 3), []
    for more in (0, 1, 6):
        rows = np.append(rng.standard_normal((more, size)).astype(np.float32), X, axis=0)
        whose = np.append(np.zeros(more, dtype=np.intp), owner)
        weight = np.where(whose == 0, 0.0, 0.125)  # all but that person
        people = (np.append(np.zeros(more, dtype=np.int64), y), function, 1.0, 0.3)
        with one_torch_thread():
            potential = ModulePotential(rows, *people, 1, weight, Members.of(whose, 90))
            sums.append(potential.gradients(function.start(), sampled)[0])
            alike = ModulePotential(rows, *people, 2, weight, Members.of(whose, 90))
            np.testing.assert_array_equal(alike.gradients(function.start(), sampled)[0], sums[-1])
    np.testing.assert_array_equal(sums[0], sums[1])
    np.testing.assert_array_equal(sums[0], sums[2])
    alone = ModulePotential(rows, *people, 1, weight)  # the same records, one by one
    chosen = Members.of(whose, 90).rows(np.arange(90) if sampled is None else sampled)
    found = alone.gradients(function.start(), np.sort(chosen))[0]
    np.testing.assert_allclose(found, sums[0], atol=1e-4)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (lambda d, k: nn.Sequential(nn.Linear(d, k), nn.BatchNorm1d(k)), r"BatchNorm1d \(1\)"),
        (lambda d, k: nn.Sequential(nn.Linear(d, k), nn.SyncBatchNorm(k)), "SyncBatchNorm"),
        (
            lambda d, k: nn.Sequential(
                nn.Unflatten(1, (1, d)), nn.InstanceNorm1d(1, track_running_stats=True)
            ),
            "InstanceNorm1d .* track_running_stats",
        ),
        (lambda d, k: nn.Sequential(nn.Dropout(0.5), nn.Linear(d, k)), "Dropout .* no effect"),
        (Stateful, "depends on the records that the module has seen"),
        (Branching, "record by record"),
        (lambda d, k: nn.Linear(d, k + 1), "logits of shape"),
        (lambda d, k: nn.Linear(d + 1, k), "input_shape"),
        (lambda d, k: nn.Flatten(), "requires_grad|logits"),
        (lambda d, k: nn.Linear(d, k).requires_grad_(False), "requires_grad"),
        (lambda d, k: "text", "torch.nn.Module"),
        (3, "torch.nn.Module"),
    ],
)
def test_modules_are_refused_by_name_before_the_ledger_is_charged(module, message, tmp_path):
    X, y = linear_data()
    ledger = PrivacyLedger(tmp_path / "ledger.sqlite", epsilon=10.0, delta=1e-3)
    with pytest.raises((TypeError, ValueError), match=message):
        DPSGLDTorchClassifier(module, ledger=ledger).fit(X, y)
    assert not list(ledger.entries())


@pytest.mark.parametrize("shape", [(1, 7), (3.0,), 3, "ab"])
def test_input_shape_is_checked(shape):
    with pytest.raises(ValueError, match="input_shape"):
        DPSGLDTorchClassifier(nn.Linear, input_shape=shape).plan(100, 3)


def test_fit_is_claimed_planned_and_charged(tmp_path):
    X, y = linear_data()
    ledger = PrivacyLedger(tmp_path / "ledger.sqlite", epsilon=10.0, delta=1e-3)
    model = DPSGLDTorchClassifier(nn.Linear, 2.0, n_steps=10, ledger=ledger, random_state=0)
    planned = model.plan(*X.shape)
    model.fit(X, y)
    assert len(list(ledger.entries())) == 1
    assert planned.privacy.epsilon_at(1e-5) == model.privacy_.epsilon_at(1e-5) <= 2.0
    assert planned.numbers["noise_"] == model.noise_
    assert model.privacy_.conditions == ()
    own = nn.Linear(X.shape[1], 2)
    before = own.weight.detach().clone()
    assert DPSGLDTorchClassifier(own, n_steps=2).fit(X, y).privacy_.conditions == (PUBLIC_WEIGHTS,)
    assert torch.equal(own.weight, before)  # the caller's object is copied


def test_draws_module_pickle_and_clone(fitted):
    model, X, y = fitted
    draws = model.sample_posterior()
    assert {name: part.shape for name, part in draws.items()} == {
        "0.weight": (5, 8, 3),
        "0.bias": (5, 8),
        "2.weight": (5, 2, 8),
        "2.bias": (5, 2),
    }
    # a draw is a state dict
    state = {name: torch.from_numpy(part[0]) for name, part in draws.items()}
    assert not model.module_.load_state_dict(state).missing_keys
    again = pickle.loads(pickle.dumps(model))
    assert again.random_state is None
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    twin = clone(model).fit(X, y)
    np.testing.assert_array_equal(twin.predict_proba(X), model.predict_proba(X))
    assert (
        clone(model).set_params(random_state=1).fit(X, y).predict_proba(X)[0, 0]
        != (model.predict_proba(X)[0, 0])
    )


def test_the_noise_is_that_of_the_plan():
    """A module whose gradient is 0 moves by noise alone: its scale is what the plan says."""

    class Flat(nn.Module):
        def __init__(self, n_features, n_classes):
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(4000))
            self.n_classes = n_classes

        def forward(self, x):
            return (0.0 * self.weight.sum() + x.sum() * 0.0).expand(1, self.n_classes)

    X, y = linear_data()
    params = {
        "step_size": 1e-3,
        "batch_size": 100,
        "sampler": {"kind": "sgld", "temperature": 1e-9},
    }
    model = DPSGLDTorchClassifier(Flat, n_steps=1, n_kept=1, tail=1.0, random_state=0, **params)
    moved = model.fit(X, y).sample_posterior()["weight"][0]
    expected = 1e-3 * model.noise_.scale / (100 / len(X))
    assert 0.95 < moved.std() / expected < 1.05  # four standard errors are 0.045


def test_a_convolution_learns_under_privacy_and_frozen_layers_stay():
    X, y = images()
    module = convolution(64, 10)
    module[0].requires_grad_(False)
    model = DPSGLDTorchClassifier(
        module, 50.0, input_shape=(1, 8, 8), adjacency="zero_out", n_steps=60, random_state=0
    ).fit(X, y)
    assert model.score(X, y) > 0.8
    assert torch.equal(model.module_[0].weight, module[0].weight)
    assert "0.weight" not in model.sample_posterior()
    # a row is predicted alike beside any others
    np.testing.assert_allclose(model.predict_proba(X[:3])[1], model.predict_proba(X[1:2])[0])


def test_two_outputs_and_one_are_the_same_model_of_two_classes():
    X, y = linear_data(4000)
    for n_outputs in (1, 2):
        model = DPSGLDTorchClassifier(
            nn.Linear(3, n_outputs), 20.0, n_steps=50, step_size=2e-3, random_state=0
        )
        assert model.fit(X, y).decision_function(X).shape == (len(X),)
        assert model.predict_proba(X).shape == (len(X), 2)
        assert model.score(X, y) > 0.8


def test_scikit_learns_checks():
    failed = [
        (check["check_name"], check["exception"])
        for check in check_estimator(DPSGLDTorchClassifier(perceptron, n_steps=5), on_fail=None)
        if check["status"] == "failed"
    ]
    assert failed == []


def blocks_of_the_guide():
    page = (DOCS / "images.rst").read_text(encoding="utf-8")
    blocks = re.findall(r"\.\. code-block:: python\n\n((?:    .*\n|\n)+)", page)
    return [re.sub(r"^    ", "", block, flags=re.MULTILINE) for block in blocks]


def test_the_torch_example_of_the_guide_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(blocks_of_the_guide()[0], {})
    assert (tmp_path / "digits.pt").exists()


def test_the_network_for_house_numbers_runs_on_a_stand_in_of_their_format(tmp_path, monkeypatch):
    """No copy of the data can be had here: images of noise."""
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 256, (32, 32, 3, 60), dtype=np.uint8), np.arange(60)[:, None] % 10 + 1
    (tmp_path / "svhn").mkdir()
    savemat(tmp_path / "svhn/train_32x32.mat", {"X": X, "y": y.astype(np.uint8)})
    monkeypatch.setenv("SKDPBAYES_DATA", str(tmp_path))
    (block,) = (block for block in blocks_of_the_guide() if "load_svhn" in block)
    names: dict = {}
    exec(re.sub("n_steps=[0-9]+", "n_steps=2", block), names)
    model = names["model"]
    assert sum(isinstance(layer, nn.Conv2d) for layer in model.module_) == 4
    assert model.predict_proba(names["X"]).shape == (60, 10)
    start = make_function(names["house_numbers"], (32, 32, 3), 3072, 10).start()
    moved = {name: part[-1].ravel() for name, part in model.sample_posterior().items()}
    # noise may leave a few numbers of single precision where they were
    assert np.mean(np.concatenate(list(moved.values())) == start) < 1e-3


# The promises of `tests.estimators.test_promises`, which run over estimators without extras.
PROMISES = (
    promises.test_a_frame_is_predicted_without_a_warning,
    promises.test_a_refused_fit_changes_nothing_and_charges_nothing,
    promises.test_an_overdrawn_ledger_leaves_the_earlier_fit,
    promises.test_an_error_after_the_charge_leaves_the_earlier_fit_and_says_so,
    promises.test_parameters_set_after_a_fit_do_not_change_it,
    promises.test_a_plan_that_does_not_prove_the_claim_is_refused,
    promises.test_text_columns_are_refused_with_a_remedy_and_no_value_is_quoted,
    contract.test_a_fitted_object_holds_nothing_that_its_noise_was_made_from,
    contract.test_a_large_delta_warns,
    contract.test_privacy_attribute_states_what_was_asked_for,
)
CASE = Case(
    DPSGLDTorchClassifier,
    frozenset(),
    params={"module": perceptron, "n_steps": 5},
    others={"module": nn.Linear, "input_shape": (3, 1), "sampler": "sghmc"},
)


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
def test_promises_of_all_estimators_are_kept(promise, tmp_path, monkeypatch):
    given = {
        "case": CASE,
        "tmp_path": tmp_path,
        "monkeypatch": monkeypatch,
        "error": KeyboardInterrupt,
        "source": 982_451_653,
    }
    promise(**{name: given[name] for name in inspect.signature(promise).parameters})


@pytest.mark.slow
def test_no_parameter_is_ignored():
    assert promises.ignored_parameters(CASE, {}) == set()
