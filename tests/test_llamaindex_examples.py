"""The LlamaIndex examples, run as they are, print what the comments at their ends say."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "examples" / "llamaindex"
EXAMPLES = sorted(path.name for path in FOLDER.glob("*.py"))


@pytest.fixture(scope="module")
def started() -> Iterator[dict[str, subprocess.Popen[str]]]:
    """All of them at once: each starts a Postgres and loads a model."""
    source = str(FOLDER.parents[1] / "src")
    running = {
        name: subprocess.Popen(
            [sys.executable, str(FOLDER / name)],
            env={**os.environ, "PYTHONPATH": source},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in EXAMPLES
    }
    yield running
    for process in running.values():
        process.kill()
        process.communicate()


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_prints_what_it_says(started: dict[str, subprocess.Popen[str]], name: str) -> None:
    printed, complaints = started[name].communicate(timeout=180)
    lines = (FOLDER / name).read_text(encoding="utf-8").splitlines()
    code = max(number for number, line in enumerate(lines) if line and not line.startswith("#"))
    promised = [line.removeprefix("# ") for line in lines[code + 1 :] if line]
    assert (started[name].returncode, complaints) == (0, "")
    assert printed.splitlines() == promised


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_names_what_it_needs_and_stays_short(name: str) -> None:
    lines = (FOLDER / name).read_text(encoding="utf-8").splitlines()
    assert any("pip install" in line for line in lines[:5])
    assert len(lines) <= 70
