"""The tutorial's commands, run one after the other, print what it says they print.

`python tests/test_tutorial.py` runs them and writes what they print into the page.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lore_retriever import embedded

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "tutorial.md"
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_VARIES = (
    (re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:[\d.]+)?Z?)?"), "date"),
    (re.compile(r"\d+\.\d+"), "number"),
    (re.compile(r"\d+ migrations|applied\s+\d+"), "migrations"),
    (re.compile("─+"), "─"),
    (re.compile(" +"), " "),
)
"""What differs from run to run, or moves columns; places in the legs are compared."""


@dataclass(frozen=True)
class Command:
    """A command as typed after `$ `, lines of a here-document included, and what is printed below it."""

    typed: str
    printed: str


def commands(block: str) -> list[Command]:
    """The commands of one block."""
    found = []
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        lines = part.splitlines(keepends=True)
        count = 1
        if here := re.search(r"<<'?(\w+)'?", lines[0]):
            count = lines.index(here[1] + "\n") + 1
        while lines[count - 1].endswith("\\\n"):
            count += 1
        found.append(Command("".join(lines[:count]), "".join(lines[count:])))
    return found


def cleaned(output: str) -> str:
    """Output as the page shows it: without bars, trailing spaces and the folder of a test."""
    lines = [line.rstrip() for line in output.replace("\r", "\n").splitlines() if "━" not in line]
    text = re.sub(r"\S*/lore-retriever/postgres", "~/.local/share/lore-retriever/postgres", "\n".join(lines))
    return text.strip("\n")


def compared(output: str) -> str:
    """Output with all that may differ taken out."""
    text = "\n".join(line for line in cleaned(output).splitlines() if line)
    for pattern, replacement in _VARIES:
        text = pattern.sub(replacement, text)
    return text


@contextmanager
def reader(folder: Path) -> Iterator[Mapping[str, str]]:
    """The environment of somebody who follows the tutorial; the server stays up between the commands."""
    (folder / "bin").mkdir()
    program = folder / "bin" / "lore-retriever"
    program.write_text(f"#!{sys.executable}\nfrom lore_retriever.cli import main\n\nmain()\n")
    program.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LORE_")}
    environment = {
        **kept,
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
        "HOME": str(folder),
        "XDG_DATA_HOME": str(folder / "data"),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "LORE_USER": "ana",
        "COLUMNS": "100",
    }
    with embedded.start(folder / "data" / "lore-retriever" / "postgres"):
        yield environment


def run(command: Command, folder: Path, environment: Mapping[str, str]) -> str:
    done = subprocess.run(
        ["bash", "-c", command.typed],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    return done.stdout


def test_every_command_of_the_tutorial_prints_what_the_page_says(tmp_path: Path) -> None:
    blocks = _BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert len(blocks) >= 8
    with reader(tmp_path) as environment:
        for block in blocks:
            for command in commands(block):
                printed = run(command, tmp_path, environment)
                assert compared(printed) == compared(command.printed), f"{command.typed}run: python {__file__}"


def renew() -> None:
    """Run the commands and write what they print into the page."""
    with tempfile.TemporaryDirectory() as name, reader(Path(name)) as environment:

        def rewritten(match: re.Match[str]) -> str:
            parts = []
            for command in commands(match[1]):
                printed = cleaned(run(command, Path(name), environment))
                parts.append(f"$ {command.typed}" + (f"{printed}\n" if printed else ""))
            return "```console\n" + "\n".join(parts) + "```"

        PAGE.write_text(_BLOCK.sub(rewritten, PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    renew()
