from __future__ import annotations

import numpy as np
import pytest

from skdpbayes import PrivateHMM, plotting
from skdpbayes.datasets import make_event_log

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")


@pytest.fixture(scope="module")
def fitted():
    log = make_event_log(3, 12, 100, categories=(20, 2), random_state=0)
    hmm = PrivateHMM(
        5.0,
        categories=(20, 2),
        n_times=12,
        sequence_labels=["north", "east", "south"],
        n_iter=20,
        burn_in=20,
        random_state=0,
    )
    names = np.array(["north", "east", "south"])
    return hmm.fit(log.data, times=log.times, sequences=names[log.sequences])


def test_timeline_has_one_row_per_sequence_and_one_color_per_state(fitted):
    months = [f"m{t}" for t in range(12)]
    display = plotting.StateTimelineDisplay.from_estimator(fitted, time_names=months)
    assert display.image_.get_array().shape == (3, 12, 3)
    labels = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert labels == ["north", "east", "south"]
    assert display.ax_.get_xticklabels()[1].get_text() == "m2"
    assert len(display.ax_.get_legend().get_texts()) == 3
    # Certain cells of one state share a color; cells of different states do not.
    picture, states = display.image_.get_array(), fitted.states_
    certain = fitted.state_proba_.max(axis=2) > 0.999
    tones = {k: np.unique(picture[certain & (states == k)], axis=0) for k in range(3)}
    kept = [tone for tone in tones.values() if len(tone)]
    assert len({tuple(tone[0]) for tone in kept}) == len(kept)
    again = display.plot(ax=matplotlib.pyplot.subplots()[1], state_names=["a", "b", "c"])
    assert again.ax_.get_legend().get_texts()[0].get_text() == "a"
    matplotlib.pyplot.close("all")


def test_timeline_of_rows_lays_chains_under_each_other():
    X = np.repeat([0, 1, 0], [20, 15, 10])[:, None]
    hmm = PrivateHMM(10.0, n_states=2, categories=2, n_iter=10, burn_in=10, random_state=0)
    hmm.fit(X, lengths=[20, 25])
    display = plotting.StateTimelineDisplay.from_estimator(hmm)
    picture = display.image_.get_array()
    assert picture.shape == (2, 25, 3)
    np.testing.assert_array_equal(picture[0, 20:], 1.0)  # white beyond the end
    matplotlib.pyplot.close("all")


def test_emissions_draw_a_bar_a_state_and_value(fitted):
    display = plotting.EmissionDisplay.from_estimator(fitted, max_values=6)
    assert len(display.axes_) == 2
    assert [len(ax.patches) for ax in display.axes_] == [18, 6]
    bars = display.axes_[1].patches
    widths = np.array([bar.get_width() for bar in bars]).reshape(3, 2)
    np.testing.assert_allclose(widths, fitted.emission_[1], atol=0.02)
    one = plotting.EmissionDisplay.from_estimator(
        fitted, fields=[1], field_names=["kind", "dark"], value_names=[range(20), ["no", "yes"]]
    )
    assert one.axes_[0].get_title(loc="left") == "dark"
    assert one.axes_[0].get_yticklabels()[1].get_text() == "yes"
    matplotlib.pyplot.close("all")


def test_many_states_get_distinct_colors():
    from skdpbayes.plotting._matplotlib import state_colors

    assert len({tuple(matplotlib.colors.to_rgb(c)) for c in state_colors(12)}) == 12
