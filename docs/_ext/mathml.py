"""Render formulas as MathML: no script, no fonts to fetch, readable offline and on phones."""

from __future__ import annotations

import html
import re

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.locale import _
from sphinx.util import logging

# What the converter does not know, and what says the same to it.
SPELLINGS = (
    (r"\\arg\s*\\(min|max)", r"\\operatorname*{arg\1}"),
    (r"\\_", "_"),
    (r"\\[bB]igg?[lr]?\\([{}])", r"\\\1"),
)


def formula(latex: str, display: str) -> str:
    """One formula as a ``<math>`` element, its source as the label that screen readers read."""
    latex = " ".join(latex.split())
    known = latex
    for pattern, spelling in SPELLINGS:
        known = re.sub(pattern, spelling, known)
    mathml = convert(known, display=display)
    if "\\" in mathml:
        logging.getLogger(__name__).warning("formula with an unknown command: %s", latex)
    return mathml.replace("<math ", f'<math aria-label="{html.escape(latex, quote=True)}" ', 1)


def inline(self, node):
    """Write a formula in a line of text."""
    self.body.append(formula(node.astext(), "inline"))
    raise nodes.SkipNode


def block(self, node):
    """Write a formula on a line of its own; ``\\\\`` and ``&`` mean what they mean in TeX."""
    latex = node.astext()
    if "\\\\" in latex:
        latex = r"\begin{aligned}" + latex + r"\end{aligned}"
    self.body.append(self.starttag(node, "div", CLASS="math formula"))
    if node["number"]:
        number = _("(%s)") % node["number"]
        self.body.append(f'<span class="eqno">{number}</span>')
    self.body.append(formula(latex, "block") + "</div>\n")
    raise nodes.SkipNode


def setup(app):
    """Register the renderer; ``html_math_renderer = "mathml"`` selects it."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
