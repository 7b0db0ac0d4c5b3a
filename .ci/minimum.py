"""Print the lowest versions that pyproject.toml allows, one requirement per line, for pip."""

import re
import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
for line in project["dependencies"]:
    name, version = re.fullmatch(r"([\w.-]+)>=([\d.]+)", line).groups()
    print(f"{name}=={version}")
