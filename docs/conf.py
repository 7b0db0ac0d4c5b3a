"""Sphinx configuration; builds offline and without warnings (``sphinx -W``)."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import skdpbayes

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "skdpbayes"
author = "the skdpbayes developers"
project_copyright = f"2026, {author}"
version = release = skdpbayes.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "myst_parser",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "mathml",
]
html_math_renderer = "mathml"  # the site must be readable without a network

default_role = "py:obj"  # a name in single backticks is a link where the name is documented
autosummary_generate = True
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
html_theme = "furo"
html_title = f"skdpbayes {release}"
html_static_path = ["_static"]
html_css_files = ["guide.css"]
html_show_sourcelink = False
exclude_patterns = [
    "_build",
    "_ext",
    "sg_execution_times.rst",
    "**/sg_execution_times.rst",
]
templates_path = ["_templates"]
suppress_warnings = [
    "config.cache",
    "ref.citation",  # lists of references at the heads of modules, named in words in the text
]

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"/plot_",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "remove_config_comments": True,
    "min_reported_time": 5,
    "show_memory": False,
    "ignore_repr_types": r"matplotlib",  # a legend, a line of text: not results
    "write_computation_times": False,  # that page would load scripts from the network
}


def skip_what_is_told_elsewhere(app, what, name, obj, skip, options):
    """Leave out methods documented by scikit-learn (metadata routing, set_output), and fields."""
    home = getattr(obj, "__module__", None) or ""
    routing = name.startswith("set_") and name.endswith("_request")
    field = type(obj).__name__ == "_tuplegetter"  # of a named tuple, described in its docstring
    return True if field or routing or home.startswith("sklearn.utils") else None


# How types are written in signatures, in place of what they stand for.
TYPES = (
    (r"~?[\w.]*_Buffer \| .*?_NestedSequence\[complex \| bytes \| str\]", "ArrayLike"),
    (r"~?[\w.]*ndarray\[tuple\[[^]]*\], ~?[\w.]*dtype\[~?[\w.]*?(\w+)\]\]", r"NDArray[\1]"),
    ("<factory>", "{}"),
)


def shorten_types(app, what, name, obj, options, signature, returns):
    """Write the types of a signature as its source does."""
    for pattern, spelling in TYPES:
        signature = signature and re.sub(pattern, spelling, signature)
        returns = returns and re.sub(pattern, spelling, returns)
    return signature, returns


def unlink_foreign_labels(app, what, name, obj, options, lines):
    """Write scikit-learn's links to its own pages as plain words: the site builds offline."""
    if (getattr(obj, "__module__", None) or "").startswith("sklearn."):
        lines[:] = [re.sub(r":ref:`([^`<]+?)\s*(<[^`]*>)?`", r"\1", line) for line in lines]


def setup(app):
    """Register the three filters above."""
    app.connect("autodoc-skip-member", skip_what_is_told_elsewhere)
    app.connect("autodoc-process-signature", shorten_types)
    app.connect("autodoc-process-docstring", unlink_foreign_labels)
