"""Searches over hyper-parameters that release the winner only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from sklearn.model_selection import ParameterGrid, ParameterSampler

from skdpbayes._validation import check_integer
from skdpbayes.model_selection.base import PrivateSearch

__all__ = ["PrivateGridSearchCV", "PrivateRandomizedSearchCV"]


class PrivateGridSearchCV(PrivateSearch):
    r"""Choose the best point of a grid under differential privacy.

    A drop-in for ``GridSearchCV`` with a hold-out in place of cross-validation. It maximizes

    .. math::
        \arg\max_{k \le K} \sum_{i \in \text{hold-out}} s(\hat f_k; x_i, y_i) + \text{noise}_k

    over *K* runs, each with a candidate drawn at random, or over all candidates once.

    **Privacy guarantee.** The search as a whole is (epsilon, delta)-differentially private for the
    adjacency of the estimator, one record being replaced by another or by a null record. The
    records are split once, by position, into a training and a validation part, so each pays either
    for the fits or for the scores. Released are the winner, its parameters and its noisy score.
    The losing runs, their scores and warnings and, with random repetition, the number of runs stay
    hidden: a run time that an adversary can measure tells about the latter. Public are the
    candidates, all parameters, the number of records and the label set. The budget of one fit is
    computed from the total before the data are used; ``epsilon``, ``delta``, ``ledger`` and
    ``random_state`` of the estimator are replaced. Every further ``fit`` of the search costs its
    epsilon again. With an integer ``random_state`` the claim needs the seed to stay secret.

    Parameters
    ----------
    estimator : classifier
        A private classifier of this package, or a pipeline that ends in one. Earlier steps that
        learn from the data are not covered: the claim names them among its conditions.
    param_grid : dict or list of dict
        As for ``GridSearchCV``. It cannot contain ``epsilon`` or ``delta``.
    epsilon : float, default=1.0
        Budget of the whole search, > 0; smaller is more private. ``np.inf`` fits every candidate
        without noise and takes the best score.
    delta : float, default=1e-5
        In [0, 1). 0 asks for a pure guarantee, which the estimator must be able to give.
    scoring : {"accuracy", "neg_log_loss"} or callable, default="accuracy"
        Hold-out score. A log loss is cut at log(1000) a record. A function ``(fitted, X, y)``
        returns a number in [0, 1] for each record, which no other record may change: that is then
        a condition of the claim.
    validation_fraction : float, default=0.2
        Share of the records that are held out, in (0, 1).
    strategy : {"auto", "repeat", "compose"}, default="auto"
        "repeat": a random number of runs with random candidates. "compose": every candidate once,
        at the price of all fits together. "auto": whichever leaves a fit more epsilon, weighted by
        the probability that a candidate is tried; ``privacy_.mechanism`` says which.
    mean_runs : float or None, default=None
        Mean number of runs for "repeat", at least 1; thrice the number of candidates by default.
        More find a better candidate and cost more.
    shape : float, default=1.0
        Distribution of the number of runs: 0 logarithmic, 1 geometric, other values above -1
        truncated negative binomial, ``np.inf`` Poisson (needs ``delta > 0``). Larger is less
        spread and costs more.
    random_state : int, RandomState, Generator or None, default=None
        None draws secure random bits. An int: reproducible.
    ledger : PrivacyLedger or None, default=None
        Charged once, for the whole search, before the data are touched. By default the ledger of
        the estimator.
    n_jobs : int or None, default=None
        Number of joblib workers for the runs.
    progress : bool, default=False
        Show a progress bar. It counts runs, whose number is to stay hidden from others.

    Attributes
    ----------
    best_estimator_ : estimator
        The winner, fitted on the training part (released). Its ``privacy_`` is the search's.
    best_params_ : dict
        Its parameters (released).
    best_index_ : int
        Its position among the candidates (released).
    best_score_ : float
        Its noisy hold-out score (released).
    cv_results_ : dict
        The candidates (public); no scores, which were not paid for.
    privacy_ : PrivacyGuarantee
        The claim of the whole search (public).
    plan_ : SearchPlan
        How the budget was spent (public): strategy, epsilon of a fit, noise of the scores.
    n_validation_ : int
        Number of held-out records (public).
    classes_ : ndarray
        The label set (public).

    References
    ----------
    .. [1] N. Papernot, T. Steinke. Hyperparameter tuning with Rényi differential privacy. ICLR
       2022.
    .. [2] J. Liu, K. Talwar. Private selection from private candidates.
       STOC 2019.
    .. [3] C. Dwork, A. Roth. The algorithmic foundations of differential privacy, 2014 (Claim
       3.9).

    Examples
    --------
    >>> from skdpbayes import LaplaceNaiveBayes, datasets
    >>> from skdpbayes.model_selection import PrivateGridSearchCV
    >>> census = datasets.make_census(4000, encoding="bins", random_state=0)
    >>> model = LaplaceNaiveBayes(distribution="categorical", categories=census.n_categories)
    >>> search = PrivateGridSearchCV(
    ...     model, {"alpha": [0.1, 1.0, 10.0]}, epsilon=2.0, delta=0.0, random_state=0,
    ... ).fit(census.data, census.target)
    >>> search.plan_.strategy, round(search.plan_.run_epsilon, 2)
    ('repeat', 1.11)
    >>> search.privacy_.epsilon, search.best_params_ in search.cv_results_["params"]
    (2.0, True)
    """

    def __init__(
        self,
        estimator: Any,
        param_grid: Any,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        scoring: Any = "accuracy",
        validation_fraction: float = 0.2,
        strategy: str = "auto",
        mean_runs: float | None = None,
        shape: float = 1.0,
        random_state: Any = None,
        ledger: Any = None,
        n_jobs: int | None = None,
        progress: bool = False,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.epsilon = epsilon
        self.delta = delta
        self.scoring = scoring
        self.validation_fraction = validation_fraction
        self.strategy = strategy
        self.mean_runs = mean_runs
        self.shape = shape
        self.random_state = random_state
        self.ledger = ledger
        self.n_jobs = n_jobs
        self.progress = progress

    def _candidates(self, generator: np.random.Generator) -> Iterable[Mapping[str, Any]]:
        return ParameterGrid(self.param_grid)


class PrivateRandomizedSearchCV(PrivateSearch):
    r"""Choose the best of candidates drawn from distributions, under differential privacy.

    A drop-in for ``RandomizedSearchCV`` with a hold-out in place of cross-validation. The
    candidates are drawn first, without the data; then it maximizes, as ``PrivateGridSearchCV``,

    .. math::
        \arg\max_{k \le K} \sum_{i \in \text{hold-out}} s(\hat f_k; x_i, y_i) + \text{noise}_k .

    **Privacy guarantee.** The search as a whole is (epsilon, delta)-differentially private for the
    adjacency of the estimator, one record being replaced by another or by a null record. The
    records are split once, by position, into a training and a validation part, so each pays either
    for the fits or for the scores. Released are the winner, its parameters and its noisy score.
    The losing runs, their scores and warnings and, with random repetition, the number of runs stay
    hidden: a run time that an adversary can measure tells about the latter. Public are the
    candidates, all parameters, the number of records and the label set. The budget of one fit is
    computed from the total before the data are used; ``epsilon``, ``delta``, ``ledger`` and
    ``random_state`` of the estimator are replaced. Every further ``fit`` of the search costs its
    epsilon again. With an integer ``random_state`` the claim needs the seed to stay secret.

    Parameters
    ----------
    estimator : classifier
        A private classifier of this package, or a pipeline that ends in one. Earlier steps that
        learn from the data are not covered: the claim names them among its conditions.
    param_distributions : dict or list of dict
        As for ``RandomizedSearchCV``. It cannot contain ``epsilon`` or ``delta``.
    epsilon : float, default=1.0
        Budget of the whole search, > 0; smaller is more private. ``np.inf`` fits every candidate
        without noise and takes the best score.
    delta : float, default=1e-5
        In [0, 1). 0 asks for a pure guarantee, which the estimator must be able to give.
    scoring : {"accuracy", "neg_log_loss"} or callable, default="accuracy"
        Hold-out score. A log loss is cut at log(1000) a record. A function ``(fitted, X, y)``
        returns a number in [0, 1] for each record, which no other record may change: that is then
        a condition of the claim.
    validation_fraction : float, default=0.2
        Share of the records that are held out, in (0, 1).
    strategy : {"auto", "repeat", "compose"}, default="auto"
        "repeat": a random number of runs with random candidates. "compose": every candidate once,
        at the price of all fits together. "auto": whichever leaves a fit more epsilon, weighted by
        the probability that a candidate is tried; ``privacy_.mechanism`` says which.
    mean_runs : float or None, default=None
        Mean number of runs for "repeat", at least 1; thrice the number of candidates by default.
        More find a better candidate and cost more.
    shape : float, default=1.0
        Distribution of the number of runs: 0 logarithmic, 1 geometric, other values above -1
        truncated negative binomial, ``np.inf`` Poisson (needs ``delta > 0``). Larger is less
        spread and costs more.
    n_iter : int, default=10
        Number of candidates drawn.
    random_state : int, RandomState, Generator or None, default=None
        None draws secure random bits. An int: reproducible.
    ledger : PrivacyLedger or None, default=None
        Charged once, for the whole search, before the data are touched. By default the ledger of
        the estimator.
    n_jobs : int or None, default=None
        Number of joblib workers for the runs.
    progress : bool, default=False
        Show a progress bar. It counts runs, whose number is to stay hidden from others.

    Attributes
    ----------
    best_estimator_ : estimator
        The winner, fitted on the training part (released). Its ``privacy_`` is the search's.
    best_params_ : dict
        Its parameters (released).
    best_index_ : int
        Its position among the candidates (released).
    best_score_ : float
        Its noisy hold-out score (released).
    cv_results_ : dict
        The candidates (public); no scores, which were not paid for.
    privacy_ : PrivacyGuarantee
        The claim of the whole search (public).
    plan_ : SearchPlan
        How the budget was spent (public): strategy, epsilon of a fit, noise of the scores.
    n_validation_ : int
        Number of held-out records (public).
    classes_ : ndarray
        The label set (public).

    References
    ----------
    .. [1] N. Papernot, T. Steinke. Hyperparameter tuning with Rényi differential privacy. ICLR
       2022.
    .. [2] J. Liu, K. Talwar. Private selection from private candidates.
       STOC 2019.
    .. [3] C. Dwork, A. Roth. The algorithmic foundations of differential privacy, 2014 (Claim
       3.9).

    Examples
    --------
    >>> from scipy.stats import loguniform
    >>> from skdpbayes import LaplaceNaiveBayes, datasets
    >>> from skdpbayes.model_selection import PrivateRandomizedSearchCV
    >>> census = datasets.make_census(4000, encoding="bins", random_state=0)
    >>> model = LaplaceNaiveBayes(distribution="categorical", categories=census.n_categories)
    >>> search = PrivateRandomizedSearchCV(
    ...     model, {"alpha": loguniform(0.1, 10)}, delta=0.0, n_iter=5, random_state=0,
    ... ).fit(census.data, census.target)
    >>> len(search.cv_results_["params"])
    5
    """

    def __init__(
        self,
        estimator: Any,
        param_distributions: Any,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        scoring: Any = "accuracy",
        validation_fraction: float = 0.2,
        strategy: str = "auto",
        mean_runs: float | None = None,
        shape: float = 1.0,
        n_iter: int = 10,
        random_state: Any = None,
        ledger: Any = None,
        n_jobs: int | None = None,
        progress: bool = False,
    ) -> None:
        self.estimator = estimator
        self.param_distributions = param_distributions
        self.epsilon = epsilon
        self.delta = delta
        self.scoring = scoring
        self.validation_fraction = validation_fraction
        self.strategy = strategy
        self.mean_runs = mean_runs
        self.shape = shape
        self.n_iter = n_iter
        self.random_state = random_state
        self.ledger = ledger
        self.n_jobs = n_jobs
        self.progress = progress

    def _candidates(self, generator: np.random.Generator) -> Iterable[Mapping[str, Any]]:
        check_integer("n_iter", self.n_iter, low=1)
        seed = int(generator.integers(2**31 - 1))
        return ParameterSampler(self.param_distributions, self.n_iter, random_state=seed)
