"""Load submodules at first use, so that importing the package stays cheap."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ["attach"]


def attach(
    package: str, *, names: Mapping[str, str] | None = None, submodules: Sequence[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a lazy package (PEP 562).

    Parameters
    ----------
    package : str
        The package's ``__name__``.
    names : mapping of str to str, optional
        Submodule (relative to ``package``) to the public names that it defines, with spaces.
    submodules : sequence of str
        Submodules that are public names themselves.
    """
    home = {name: module for module, listed in (names or {}).items() for name in listed.split()}
    public = sorted({*home, *submodules})

    def __getattr__(name: str) -> Any:
        if name in home:
            value = getattr(importlib.import_module(f"{package}.{home[name]}"), name)
        elif name in submodules:
            value = importlib.import_module(f"{package}.{name}")
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, value)  # the next access is a plain lookup
        return value

    def __dir__() -> list[str]:
        return public

    return __getattr__, __dir__, public
