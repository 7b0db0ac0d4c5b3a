"""The guide's examples run, and its API reference leaves nothing out."""

from __future__ import annotations

import doctest
import importlib
import re
import types
from pathlib import Path

import pytest

import skdpbayes

DOCS = Path(__file__).parent.parent / "docs"
PAGES = sorted([*DOCS.glob("*.rst"), *DOCS.glob("*.md")])
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


@pytest.mark.parametrize(
    "page", [p for p in PAGES if ">>>" in p.read_text("utf-8")], ids=lambda page: page.name
)
def test_the_examples_of_a_page_run(page, tmp_path, monkeypatch):
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".md":  # a closing fence is not part of the output
        text = re.sub(r"^```.*$", "", text, flags=re.MULTILINE)
    examples = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    failures = doctest.DocTestRunner(optionflags=FLAGS).run(examples).failed
    assert failures == 0


def resolve(name):
    """Return the object that a name of the reference means."""
    found = skdpbayes
    for part in name.split("."):
        found = getattr(found, part)
    return found


def public_objects():
    """Map what the package and its public subpackages export to its full names."""
    for name in skdpbayes.__all__:
        value = getattr(skdpbayes, name)
        if not isinstance(value, types.ModuleType):
            yield name, value
            continue
        module = importlib.import_module(f"skdpbayes.{name}")
        yield from ((f"{name}.{inner}", getattr(module, inner)) for inner in module.__all__)


def test_the_api_reference_lists_every_public_name():
    reference = (DOCS / "api.rst").read_text(encoding="utf-8")
    names = re.findall(r"^   ([\w.]+)$", reference, re.MULTILINE)
    assert len(names) == len(set(names))
    listed = {id(resolve(name)): name for name in names}
    whole = tuple(f"{name}." for name in names if isinstance(resolve(name), types.ModuleType))
    missing = [
        name
        for name, value in public_objects()
        if id(value) not in listed and not name.startswith(whole)
    ]
    assert missing == []
