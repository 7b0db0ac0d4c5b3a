"""The rooms of the package keep to themselves; heavy packages load at first use."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numba
import pytest

import conftest
import skdpbayes

PACKAGE = Path(skdpbayes.__file__).parent
ROOMS = ("privacy", "samplers", "models", "randomness")
# scikit-learn itself imports pandas where it is installed, so pandas is not listed.
HEAVY = ("numba", "randomgen", "dp_accounting", "matplotlib")


def _imports(path: Path) -> set[str]:
    """Every module that a file imports, at any depth."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in {path}"
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def _files() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def _room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0]


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_import_nothing_of_each_other(room):
    """But for losses, whose facts that need a search have their home in `privacy`."""
    allowed = {"skdpbayes", "skdpbayes.exceptions", "skdpbayes._lazy", f"skdpbayes.{room}"}
    if room == "models":
        allowed.add("skdpbayes.privacy")
    for path in (PACKAGE / room).rglob("*.py"):
        for name in _imports(path):
            if name == "skdpbayes" or not name.startswith("skdpbayes."):
                continue
            head = ".".join(name.split(".")[:2])
            assert head in allowed, f"{path.name} of {room} imports {name}"


def test_adjacency_is_compared_in_privacy_only():
    """Elsewhere it is passed on; `papers` also knows what another accountant calls it."""
    words = {"replace_one", "zero_out"}
    for path in _files():
        if _room(path) in ("privacy", "papers"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Compare):
                named = {n.value for n in ast.walk(node) if isinstance(n, ast.Constant)}
                assert not words & named, f"{path}:{node.lineno}"


def test_privacy_sees_no_learning_library():
    for path in (PACKAGE / "privacy").rglob("*.py"):
        assert not any(name.split(".")[0] == "sklearn" for name in _imports(path)), path


def test_only_validation_imports_private_scikit_learn_names():
    for path in _files():
        if path.name == "_validation.py":
            continue
        private = {
            name
            for name in _imports(path)
            if name.startswith("sklearn") and any(part.startswith("_") for part in name.split("."))
        }
        assert not private, f"{path}: {private}"


def test_nothing_below_imports_the_estimators():
    """Own models and printed algorithms run the chain of the estimators, and no more of theirs."""
    front_ends = {"__init__.py", "__main__.py", "_demo.py"}
    for path in _files():
        if _room(path) == "estimators" or path.name in front_ends:
            continue
        named = {name for name in _imports(path) if name.startswith("skdpbayes.estimators")}
        if _room(path) in ("sampling", "papers"):
            named = {name for name in named if not name.startswith("skdpbayes.estimators.chain.")}
        assert not named, path


def test_the_room_of_own_models_is_above_those_it_uses():
    """Nothing imports `sampling` but itself, `papers` and the front end."""
    for path in _files():
        if _room(path) in ("sampling", "papers", "__init__.py"):
            continue
        assert not any(name.startswith("skdpbayes.sampling") for name in _imports(path)), path


def test_random_bits_are_drawn_in_one_package_only():
    """Outside ``randomness`` no file seeds a generator (data generators, which are public, may)."""
    for path in _files():
        if _room(path) in ("randomness", "datasets"):
            continue
        used = {
            node.attr if isinstance(node, ast.Attribute) else node.id
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, (ast.Attribute, ast.Name))
        }
        assert not used & {"default_rng", "RandomState", "SystemRandom", "urandom"}, path
        assert "random" not in _imports(path), path


def test_names_are_listed_once():
    """Packages say what is public; a module does only where the reference shows it whole."""
    shown = {"_lazy.py", "__main__.py", "exceptions.py", "bounds.py", "neighbors.py"}
    for path in _files():
        listed = any(
            isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__"
            for node in ast.parse(path.read_text(encoding="utf-8")).body
        )
        assert not listed or path.name in shown | {"__init__.py"}, path


def test_importing_every_public_name_loads_nothing_heavy():
    code = (
        "import sys, skdpbayes\n"
        "for name in skdpbayes.__all__: getattr(skdpbayes, name)\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_tests_compile_into_a_folder_that_no_other_sources_use(tmp_path):
    """Numba would serve old code of a function whose callee, in another file, has changed."""
    if not (Path(conftest.__file__).parent / "skdpbayes").is_dir():
        pytest.skip("an installed package does not change")
    compiled = [p for p in _files() if "numba" in _imports(p) and _room(p) != "_compile.py"]
    assert compiled
    assert {_room(path) for path in compiled} <= set(conftest.COMPILED_ROOMS)
    assert Path(numba.config.CACHE_DIR).name == conftest.digest_of_sources(PACKAGE)
    for room in conftest.COMPILED_ROOMS:
        shutil.copytree(PACKAGE / room, tmp_path / room)
    assert conftest.digest_of_sources(tmp_path) == conftest.digest_of_sources(PACKAGE)
    changed = next((tmp_path / "samplers").glob("*.py"))
    changed.write_text(changed.read_text(encoding="utf-8") + "#", encoding="utf-8")
    assert conftest.digest_of_sources(tmp_path) != conftest.digest_of_sources(PACKAGE)


def _own_bases(kind: type) -> list[type]:
    return [base for base in kind.__bases__ if base.__module__.split(".")[0] == "skdpbayes"]


def _depth(kind: type) -> int:
    return 1 + max(map(_depth, _own_bases(kind)), default=0)


def _one_child(classes: set[type]) -> set[str]:
    children = Counter(base for kind in classes for base in _own_bases(kind))
    return {base.__name__ for base, n in children.items() if n == 1}


def test_classes_are_shallow_and_no_base_has_a_single_subclass():
    classes = set()
    for found in pkgutil.walk_packages(skdpbayes.__path__, "skdpbayes."):
        if found.name == "skdpbayes.__main__":
            continue
        try:
            module = importlib.import_module(found.name)
        except ModuleNotFoundError as error:
            if error.name.split(".")[0] not in ("torch", "dask", "psycopg"):  # of extras
                raise
            continue
        classes |= {value for value in vars(module).values() if inspect.isclass(value)}
    classes = {kind for kind in classes if kind.__module__.split(".")[0] == "skdpbayes"}
    assert len(classes) > 100
    assert max(map(_depth, classes)) <= 4
    # to overdraw a ledger is one of the ways in which it refuses: users catch either
    assert _one_child(classes) == {"LedgerError"}


def test_an_only_child_is_noticed():
    base = type("Base", (), {"__module__": "skdpbayes.somewhere"})
    one, two = (type(name, (base,), {"__module__": "skdpbayes.there"}) for name in ("One", "Two"))
    assert _one_child({base, one}) == {"Base"}
    assert _one_child({base, one, two}) == set()
    assert _depth(one) == 2


def test_nobody_asks_which_loss_it_is():
    """A loss is made where a model is chosen; elsewhere its facts are read."""
    for path in _files():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            asked = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance"
            if asked or isinstance(node, (ast.Compare, ast.MatchClass)):
                named = {
                    getattr(part, "attr", getattr(part, "id", ""))
                    for part in ast.walk(node)
                    if isinstance(part, (ast.Attribute, ast.Name))
                }
                assert not any(name.endswith("Loss") for name in named), f"{path}:{node.lineno}"
