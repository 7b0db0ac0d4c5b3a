"""Results in a JSON file: saved row by row, merged by what a row is about."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
import threading
import time
from pathlib import Path

IDENTITY = ("part", "who", "data", "method", "adjacency", "delta", "epsilon", "case")
LIBRARIES = ("skdpbayes", "numpy", "scipy", "scikit-learn", "numba")
PEERS_HERE = {"hmm": ("hmmlearn",), "hmc": ("nutpie", "numpyro", "arviz"), "noise": ("opendp",)}
ROOT = Path(__file__).resolve().parent.parent


def machine():
    """Describe the machine without naming it."""
    model = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "threads": int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1)),
        "system": f"{platform.system()}, Python {platform.python_version()}",
        "load_before": round(load, 1),
    }


def commit():
    """Return the short commit, with a plus sign where the package has changes beyond it."""

    def git(*arguments):
        command = ["git", "-C", str(ROOT), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no", "--", "skdpbayes")
        return git("rev-parse", "--short", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def versions(names):
    found = {}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


class Store:
    """Rows and the circumstances under which each part of them was measured."""

    def __init__(self, path):
        self.path = Path(path)
        self._lock = threading.Lock()
        self.rows, self.stamps = [], {}
        if self.path.exists():
            content = json.loads(self.path.read_text())
            self.rows, self.stamps = content["rows"], content["stamps"]
        self._fresh = set()

    def begin(self, part, who):
        """Note where and when the rows of a part are measured."""
        self.stamps[f"{part}/{who}"] = {
            "date": time.strftime("%Y-%m-%d %H:%M", time.gmtime()) + " UTC",
            "commit": commit(),
            "machine": machine(),
            "versions": versions(LIBRARIES if who == "ours" else PEERS_HERE.get(part, ())),
            "complete": False,
        }

    def merge(self, path):
        """Take over the parts that another file holds, in place of what is here of them."""
        other = Store(path)
        parts = {tuple(key.split("/")) for key in other.stamps}
        kept = [row for row in self.rows if (row["part"], row["who"]) not in parts]
        self.rows, self.stamps = kept + other.rows, {**self.stamps, **other.stamps}
        self._save()

    def put(self, **row):
        """Add a row, or replace the one that is about the same, and save."""
        key = self._key(row)
        with self._lock:
            self._fresh.add(key)
            self.rows = [old for old in self.rows if self._key(old) != key] + [row]
            self._save()

    def add_versions(self, part, who, found):
        with self._lock:
            self.stamps[f"{part}/{who}"]["versions"].update(found)

    def finish(self, part, who, seconds, data=None):
        """Drop rows of the part (of the data sets that were run) not measured again."""
        with self._lock:
            self.stamps[f"{part}/{who}"].update(complete=True, took=round(seconds))
            self.rows = [
                row
                for row in self.rows
                if (row["part"], row["who"]) != (part, who)
                or (data is not None and row.get("data") not in data)
                or self._key(row) in self._fresh
            ]
            self._save()

    def select(self, **wanted):
        return [
            row
            for row in self.rows
            if all(row.get(name) == value for name, value in wanted.items())
        ]

    @staticmethod
    def _key(row):
        return tuple(row.get(name) for name in IDENTITY)

    def _save(self):
        rows = sorted(self.rows, key=lambda row: (row["part"], row["who"]))  # stable
        lines = ",\n".join(json.dumps(row) for row in rows)
        text = f'{{"stamps": {json.dumps(self.stamps, indent=1)},\n"rows": [\n{lines}\n]}}\n'
        partial = self.path.with_suffix(".partial")
        partial.write_text(text)
        partial.replace(self.path)
