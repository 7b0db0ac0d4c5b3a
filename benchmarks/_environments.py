"""Interpreters for the peers that need versions of their own, and jobs that run in them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import numpy as np

REQUIREMENTS = {
    "diffprivlib": ["diffprivlib==0.6.6", "scikit-learn==1.7.2", "scipy<1.18"],
    "opacus": ["opacus==1.6.0", "torch==2.13.0", "scikit-learn"],
    "interpret": ["interpret-core==0.7.8", "pandas"],
}
HERE = Path(__file__).resolve().parent


def python_of(folder):
    return str(Path(folder) / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))


def usable(python, peer):
    done = subprocess.run([python, "-c", f"import {peer}, sklearn"], capture_output=True)
    return done.returncode == 0


def interpreters(named, folder, peers=("diffprivlib", "opacus")):
    """Return {peer: interpreter}: named ones, then the folder's, made there where absent."""
    found = {}
    for peer in peers:
        requirements = REQUIREMENTS[peer]
        python = named.get(peer)
        if python is None and folder is not None:
            home = Path(folder) / peer
            python = python_of(home)
            if not (Path(python).exists() and usable(python, peer)):
                print(f"making an environment for {peer} in {home}", flush=True)
                venv.create(home, with_pip=True, clear=True)
                subprocess.run(
                    [python, "-m", "pip", "install", "--quiet", *requirements], check=True
                )
        if python is None and usable(sys.executable, peer):
            python = sys.executable
        if python is None:
            print(f"{peer}: left out (give --environments DIR or --{peer}-python PYTHON)")
            continue
        if not usable(python, peer):
            raise SystemExit(f"{python} cannot import {peer} and scikit-learn")
        found[peer] = python
    return found


def run_job(peer, python, job, arrays):
    """Run a peer's script on the arrays and yield its results as they come."""
    with tempfile.TemporaryDirectory() as folder:
        data, order = Path(folder) / "data.npz", Path(folder) / "job.json"
        np.savez(data, **arrays)
        order.write_text(json.dumps({**job, "data": str(data)}))
        command = [python, str(HERE / f"_peer_{peer}.py"), str(order)]
        with open(Path(folder) / "errors", "w+") as errors:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
            try:
                assert process.stdout is not None
                for line in process.stdout:
                    if line.startswith("{"):
                        yield json.loads(line)
            finally:
                if process.poll() is None and sys.exc_info()[0] is not None:
                    process.kill()
                code = process.wait()
            if code:
                errors.seek(0)
                raise RuntimeError(f"{peer} failed:\n{errors.read()[-2000:]}")
