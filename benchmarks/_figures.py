"""Plots of the benchmark page."""

from __future__ import annotations

import numpy as np

COLORS = {
    "DPSGLDClassifier": "#0072b2",
    "ObjPertLogisticRegression": "#d55e00",
    "ObjPertLogisticRegression, margin": "#e69f00",
    "OPSLogisticRegression": "#009e73",
    "LaplaceNaiveBayes": "#cc79a7",
}
PEER_COLORS = {"Opacus": "0.15", "diffprivlib": "0.45"}
MARKERS = {"DPSGLDClassifier": "o", "ObjPertLogisticRegression": "s", "LaplaceNaiveBayes": "D"}
MARKERS["ObjPertLogisticRegression, margin"] = "P"
SIDES = {
    "zero_out": "One record taken out (zero_out)",
    "replace_one": "One record exchanged (replace_one)",
}


def draw(store, folder):
    """Draw what the results allow; return {name: file name}."""
    import matplotlib

    matplotlib.use("Agg")
    folder.mkdir(parents=True, exist_ok=True)
    rows = store.select(part="accuracy")
    found = {}
    # our side measures the levels without privacy, and has to be there
    names = [row["data"] for row in rows if row["adjacency"] == "not private"]
    linear = [name for name in names if name.endswith((", raw", ", log"))]
    tables = [name for name in names if name.endswith(", bins")]
    if linear:
        name = "adult_accuracy.png" if linear[0].startswith("Adult") else "census_accuracy.png"
        found["accuracy"] = _linear_accuracy(rows, sorted(linear)[::-1], folder / name)
    if tables:
        found["naive_bayes"] = _table_accuracy(rows, tables[0], folder / "naive_bayes_accuracy.png")
    people = store.select(part="tables")
    if any(row["epsilon"] is None for row in people):
        found["tables"] = _people(people, folder / "tables_auc.png")
    if store.select(part="speed"):
        found["speed"] = _speed(store.select(part="speed"), folder / "speed.png")
    return found


def _style(row):
    """Ours are full lines in color, peers are dashed and gray."""
    pure = row["delta"] == 0.0
    if row["who"] == "ours":
        label = row["method"] + (", δ = 0" if pure else "")
        style = {"color": COLORS.get(row["method"], "C5"), "lw": 2.0}
        style["ls"] = (0, (1, 1)) if pure and row["method"] != "LaplaceNaiveBayes" else "-"
        style["marker"] = MARKERS.get(row["method"], "^")
        return label, style
    color = PEER_COLORS.get(row["method"].split()[0], "0.3")
    label = row["method"] + (", δ = 0" if pure else "")
    return label, {"color": color, "ls": "--", "lw": 1.4, "marker": "x"}


def _worth_drawing(row):
    """Leave out what would only fill the panels; the tables have it."""
    pure_default = row["delta"] == 0.0 and row["method"] == "ObjPertLogisticRegression"
    return "defaults" not in row["method"] and not pure_default


def _curves(axes, rows):
    """A line for each method and delta, with the standard error of its mean."""
    lines = {}
    for row in rows:
        lines.setdefault((row["who"], row["method"], row["delta"], row["adjacency"]), []).append(
            row
        )
    for key in sorted(lines, key=lambda key: (key[0] != "ours", key[1], -key[2])):
        mine = sorted(lines[key], key=lambda row: row["epsilon"])
        label, style = _style(mine[0])
        errors = [row["accuracy_sd"] / np.sqrt(row["n_seeds"]) for row in mine]
        axes.errorbar(
            [row["epsilon"] for row in mine],
            [row["accuracy"] for row in mine],
            errors,
            label=label,
            ms=5,
            elinewidth=1.0,
            **style,
        )


def _levels(axes, reference):
    axes.axhline(reference["accuracy"], color="black", lw=1.0)
    axes.axhline(reference["majority"], color="0.6", lw=1.0, ls=":")
    for text, level, side in (
        ("not private", reference["accuracy"], 0.0),
        ("always the majority", reference["majority"], 1.0),
    ):
        axes.annotate(
            text,
            (side, level),
            xycoords=("axes fraction", "data"),
            xytext=(3 - 6 * side, 2),
            textcoords="offset points",
            fontsize=8,
            ha="right" if side else "left",
            color="0.3",
            annotation_clip=True,
        )


def _ticks(axes, rows):
    epsilons = sorted({row["epsilon"] for row in rows if row["epsilon"] is not None})
    axes.set_xscale("log")
    axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    axes.set_xticks([], minor=True)
    axes.grid(axis="y", color="0.92")
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _people(rows, path):
    """One panel per table: AUC against epsilon, nothing of ours tuned."""
    import matplotlib.pyplot as plt

    titles = {
        "adult": "Adult",
        "abalone": "Abalone",
        "hie": "RAND HIE: any expense",
        "cps": "CPS: earnings above 20",
        "mushroom": "Mushroom",
    }
    names = list(dict.fromkeys(row["data"] for row in rows))
    figure, panels = plt.subplots(
        1, len(names), figsize=(2.7 * len(names) + 0.6, 3.6), squeeze=False, layout="constrained"
    )
    shown = ("DPSGLDClassifier, spline", "DP-EBM, defaults", "DP-EBM, tuned")
    for axes, name in zip(panels[0], names, strict=True):
        mine = [row for row in rows if row["data"] == name]
        for method in shown:
            line = sorted(
                (row for row in mine if row["method"] == method), key=lambda row: row["epsilon"]
            )
            own = method == shown[0]
            axes.plot(
                [row["epsilon"] for row in line],
                [row["auc"] for row in line],
                label="DPSGLDClassifier, not tuned" if own else method,
                color=COLORS["DPSGLDClassifier"]
                if own
                else "0.15"
                if "tuned" in method
                else "0.55",
                ls="-" if own else "--",
                marker="o" if own else "x",
                lw=2.0 if own else 1.4,
            )
        plain = next(row for row in mine if row["epsilon"] is None)
        axes.axhline(plain["auc"], color="black", lw=1.0)
        _ticks(axes, mine)
        axes.set(title=titles.get(name, name), xlabel="ε")
        axes.title.set_fontsize(10)
    panels[0, 0].set_ylabel("test AUC (line: not private)")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(path, dpi=130)
    plt.close(figure)
    return path.name


def _linear_accuracy(rows, names, path):
    """Columns: encodings; rows: adjacency. Like is compared with like."""
    import matplotlib.pyplot as plt

    figure, grid = plt.subplots(
        2,
        len(names),
        figsize=(4.9 * len(names) + 0.4, 8.2),
        sharex=True,
        sharey="row",
        squeeze=False,
        layout="constrained",
    )
    handles = {}
    plain = [row for row in rows if row["data"] in names and row["adjacency"] == "not private"]
    for line, adjacency in enumerate(SIDES):
        lowest = min(
            (
                row["accuracy"]
                for row in rows
                if row["data"] in names and row["adjacency"] == adjacency and _worth_drawing(row)
            ),
            default=plain[0]["majority"],
        )
        floor = max(lowest, plain[0]["majority"] - 0.004) - 0.006
        grid[line, 0].set_ylim(floor, max(row["accuracy"] for row in plain) + 0.006)
    for column, name in enumerate(names):
        mine = [row for row in rows if row["data"] == name]
        reference = next(row for row in mine if row["adjacency"] == "not private")
        for line, (adjacency, title) in enumerate(SIDES.items()):
            axes = grid[line, column]
            shown = [row for row in mine if row["adjacency"] == adjacency and _worth_drawing(row)]
            _curves(axes, shown)
            _levels(axes, reference)
            _ticks(axes, mine)
            axes.set_title(f"{name}\n{title}" if line == 0 else title, fontsize=10)
            if column == 0:
                axes.set_ylabel("test accuracy")
            handles.update(zip(*axes.get_legend_handles_labels()[::-1], strict=True))
        grid[-1, column].set_xlabel("ε (smaller is more private)")
    figure.legend(
        *(handles.values(), handles),
        loc="outside lower center",
        ncol=2 * len(names) - 1,
        fontsize=9,
    )
    delta = max(row["delta"] or 0.0 for row in rows)
    figure.suptitle(
        f"Test accuracy against ε (δ = {delta:g} unless said)".replace("e-0", "e-"), fontsize=12
    )
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return path.name


def _table_accuracy(rows, name, path):
    import matplotlib.pyplot as plt

    mine = [row for row in rows if row["data"] == name]
    reference = next(row for row in mine if row["adjacency"] == "not private")
    figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    shown = [row for row in mine if row["adjacency"] in ("replace_one", "not stated")]
    lines = {}
    for row in shown:
        lines.setdefault((row["method"], row["delta"]), []).append(row)
    for (method, delta), cells in lines.items():
        cells.sort(key=lambda row: row["epsilon"])
        ours = cells[0]["who"] == "ours"
        axes.errorbar(
            [row["epsilon"] for row in cells],
            [row["accuracy"] for row in cells],
            [row["accuracy_sd"] / np.sqrt(row["n_seeds"]) for row in cells],
            label=f"{method}, δ = {delta:g}".replace("e-0", "e-"),
            color=("#cc79a7" if delta == 0.0 else "#0072b2") if ours else "0.45",
            ls="-" if ours else "--",
            lw=2.0 if ours else 1.4,
            marker="D" if ours else "x",
            ms=5,
        )
    _levels(axes, reference)
    _ticks(axes, mine)
    axes.set(xlabel="ε (smaller is more private)", ylabel="test accuracy")
    axes.set_title(f"Naive Bayes on {name}, replace_one", fontsize=11)
    axes.legend(fontsize=8, loc="lower right", framealpha=0.95)
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return path.name


def _speed(rows, path):
    """Bars of seconds per fit and of examples per second, on logarithmic axes."""
    import matplotlib.pyplot as plt

    cases = list(dict.fromkeys(row["case"] for row in rows))
    sizes = [sum(row["case"] == case for row in rows) for case in cases]
    figure, grid = plt.subplots(
        len(cases),
        1,
        figsize=(8.2, 0.36 * sum(sizes) + 0.95 * len(cases)),
        height_ratios=[size + 0.6 for size in sizes],
        squeeze=False,
        layout="constrained",
    )
    for axes, case in zip(grid[:, 0], cases, strict=True):
        mine = [row for row in rows if row["case"] == case]
        field = "seconds" if "seconds" in mine[0] else "examples_a_second"
        mine.sort(key=lambda row: row[field], reverse=field == "seconds")
        values = [row[field] for row in mine]
        colors = [
            "#0072b2" if row["who"] == "ours" and "scikit" not in row["method"] else "0.65"
            for row in mine
        ]
        bars = axes.barh([_bar_label(row) for row in mine], values, color=colors, height=0.7)
        texts = [f"{v:.2g} s" if field == "seconds" else f"{v:,.0f} /s" for v in values]
        axes.bar_label(bars, texts, padding=3, fontsize=8)
        if field == "seconds":
            axes.set_xlim(0, 1.12 * max(values))
        else:  # orders of magnitude apart
            axes.set_xscale("log")
            axes.set_xlim(10 ** np.floor(np.log10(min(values)) - 0.3), max(values) * 4)
        better = (
            "seconds, shorter is better" if field == "seconds" else "a second, longer is better"
        )
        axes.set_title(f"{case} ({better})", fontsize=10, loc="left")
        axes.tick_params(axis="y", labelsize=8)
        axes.tick_params(axis="x", labelsize=8)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return path.name


def _bar_label(row):
    adjacency = row.get("adjacency")
    if adjacency in (None, "not private", "not stated"):
        return row["method"]
    pure = ", δ = 0" if row["delta"] == 0.0 else ""
    return f"{row['method']} ({adjacency}{pure})"
