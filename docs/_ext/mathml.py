"""Render formulas as MathML: no script, no fonts to fetch, readable offline and on phones."""

from __future__ import annotations

import re
from xml.etree import ElementTree

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
# Names that TeX sets apart from their neighbors, and those with limits below them.
NAMED = {"cos", "cosh", "det", "exp", "ln", "log", "sin", "sinh", "tan", "tanh", "Pr"}
LIMITED = {"argmax", "argmin", "inf", "lim", "max", "min", "sup"}
SCRIPTED = {"msub", "msubsup", "msup", "munder"}
OPERANDS = SCRIPTED | {"mi", "mn", "mfrac", "mrow", "msqrt"}
BARS, CLOSING, PRIMES, SIGNS = set("|‖"), set(")]}|‖′″"), set("′″"), set("−+")
NAMESPACE = "http://www.w3.org/1998/Math/MathML"
ElementTree.register_namespace("", NAMESPACE)


def kind(element) -> str:
    """The element's tag without its namespace."""
    return element.tag.rpartition("}")[2]


def core(element):
    """What carries the scripts: ``max`` in a maximum over a set."""
    return core(element[0]) if kind(element) in SCRIPTED else element


def is_named(element) -> bool:
    """Whether the element is the name of a function, with or without scripts."""
    return core(element).text in NAMED | LIMITED


def opens(element) -> bool:
    """Whether the element is an opening bracket, or a group that begins with one."""
    first = element[0] if kind(element) == "mrow" and len(element) else element
    return kind(first) == "mo" and first.text in set("([{")


def is_operand(element) -> bool:
    """Whether a name can apply to the element without brackets."""
    return kind(element) in OPERANDS or is_named(element) or element.text in BARS


def closes(element) -> bool:
    """Whether the element ends a factor that a name may follow."""
    return kind(element) in OPERANDS or element.text == ")"


def set_apart(parent) -> None:
    """Put thin spaces around names of functions, as TeX does: ``2 cos t`` and not ``2cost``."""
    for child in reversed(list(parent)):
        if not is_named(child):
            continue
        where = list(parent).index(child)
        if kind(core(child)) == "mo":
            core(child).attrib.update(lspace="0", rspace="0")
        before, after = parent[:where][-1:], parent[where + 1 : where + 2]
        if any(is_operand(other) and not opens(other) for other in after):
            parent.insert(where + 1, ElementTree.Element("mspace", width="0.167em"))
        if any(closes(other) and not is_named(other) for other in before):
            parent.insert(where, ElementTree.Element("mspace", width="0.167em"))


def bind(parent) -> None:
    """Let bars, slashes and signs stand close to their operands: ``|x|``, ``a/b``, ``(-x)``."""
    before = None  # the operator just before, if there is one
    for child in parent:
        operator = child.text if kind(child) == "mo" else None
        if operator == "/" or operator in BARS:
            child.attrib.update(lspace="0", rspace="0")
        elif operator in SIGNS and before is not None and before not in CLOSING:
            child.attrib.update(form="prefix", lspace="0", rspace="0")
        before = operator


def lower_prime(element) -> None:
    """Write a prime as an operator on the line: its glyph is raised already."""
    *base, prime = element
    prime.tag = f"{{{NAMESPACE}}}mo"
    prime.attrib.update(lspace="0", rspace="0")
    if len(base) > 1:
        scripted = ElementTree.Element(f"{{{NAMESPACE}}}msub")
        scripted.extend(base)
        base = [scripted]
    element.tag = f"{{{NAMESPACE}}}mrow"
    element[:] = [*base, prime]


def polish(mathml: str, label: str, display: str) -> str:
    """The formula with the spaces, limits and primes of TeX, and a label for screen readers."""
    tree = ElementTree.fromstring(mathml)
    for element in list(tree.iter()):
        if kind(element) in ("math", "mrow", "mtd", "msqrt"):
            set_apart(element)
            bind(element)
        elif kind(element) in ("msup", "msubsup") and element[-1].text in PRIMES:
            lower_prime(element)
        elif kind(element) == "msub" and display == "block" and element[0].text in LIMITED:
            element.tag = f"{{{NAMESPACE}}}munder"
    tree.set("aria-label", label)
    return ElementTree.tostring(tree, encoding="unicode")


def formula(latex: str, display: str) -> str:
    """One formula as a ``<math>`` element, its source as the label that screen readers read."""
    latex = " ".join(latex.split())
    known = latex
    for pattern, spelling in SPELLINGS:
        known = re.sub(pattern, spelling, known)
    mathml = convert(known, display=display)
    if "\\" in mathml:
        logging.getLogger(__name__).warning("formula with an unknown command: %s", latex)
    return polish(mathml, latex, display)


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
    return {"version": "2", "parallel_read_safe": True, "parallel_write_safe": True}
