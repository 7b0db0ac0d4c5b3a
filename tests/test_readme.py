"""What the README shows is run, its output compared, and what it names exists."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import tomllib
from pathlib import Path

import pytest

import skdpbayes
from skdpbayes.__main__ import _parser

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def words(text):
    """Split at white space: lines may be broken anywhere in the README."""
    return text.split()


def test_every_fence_has_a_language_that_is_checked():
    assert {language for language, _ in BLOCKS} == {"python", "text", "sh"}
    assert TEXT.count("```") == 2 * len(BLOCKS)


def test_the_code_runs_in_order_and_prints_what_is_shown(tmp_path, monkeypatch):
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    printed = 0
    following = [*BLOCKS[1:], ("", "")]
    for (language, body), (next_language, shown) in zip(BLOCKS, following, strict=True):
        if language != "python":
            continue
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile(body, "README.md", "exec"), namespace)
        if next_language == "text":
            assert words(output.getvalue()) == words(shown), f"after\n{body}"
            printed += 1
        else:
            assert not output.getvalue(), f"output is not shown after\n{body}"
    assert printed == [language for language, _ in BLOCKS].count("text")


def commands():
    """List every command of the README, one by one."""
    shell = "\n".join(body for language, body in BLOCKS if language == "sh")
    inline = re.findall(r"`((?:python|pip|pytest|bash) [^`]*)`", TEXT)
    parts = [part for line in shell.splitlines() for part in line.split("#")[0].split("&&")]
    return [shlex.split(part) for part in [*parts, *inline] if part.strip()]


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_every_command_names_what_exists(command):
    match command:
        case ["python", "-m", "skdpbayes", *arguments]:
            assert callable(_parser().parse_args(arguments).run)
        case ["python", "-m", "sphinx", folder, _]:
            assert (ROOT / folder / "conf.py").is_file()
        case ["python", script, *flags]:
            source = (ROOT / script).read_text(encoding="utf-8")
            assert all(f'"{flag}"' in source for flag in flags)
        case ["pip", "install", *_, target]:
            extras = re.fullmatch(r"\.(?:\[(.*)\])?", target)
            assert extras
            project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
            known = project["project"]["optional-dependencies"]
            assert set((extras[1] or "test").split(",")) <= set(known)
        case ["pytest"]:
            pass
        case _:
            pytest.fail(f"no check knows {command}")


def test_links_and_pictures_are_in_the_repository():
    targets = re.findall(r"\]\(([^)#]+)\)", TEXT)
    assert targets
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_the_citation_names_this_version():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {skdpbayes.__version__}\n" in citation
