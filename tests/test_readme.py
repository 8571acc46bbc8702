"""The README works as it stands: the wheel in a fresh environment runs its Python."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest


def python_blocks(text: str) -> list[str]:
    """Code blocks marked exactly `python`; `python no-run` needs what a reader has and a test has not."""
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def fresh_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel of this checkout and its quick-start extra."""
    root = Path(__file__).parents[1]
    folder = tmp_path_factory.mktemp("wheel")
    quiet = ["--quiet", "--disable-pip-version-check"]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *quiet, "--no-deps", "-w", folder, root], check=True)
    (wheel,) = folder.glob("lore_retriever-*.whl")
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", *quiet, f"{wheel}[quickstart]"], check=True)
    return python


def test_the_readme_s_python_runs_verbatim_on_the_installed_wheel(fresh_python: Path, tmp_path: Path) -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    (code,) = python_blocks(readme)
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "LORE_DATABASE")}
    environment |= {
        "HOME": str(tmp_path),
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    done = subprocess.run(
        [fresh_python, "-c", code],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first.startswith("backup 0.")
    assert second == "{'vector': 1, 'exact': 1, 'relaxed': 1}"


def test_the_installed_command_answers(fresh_python: Path) -> None:
    done = subprocess.run(
        [fresh_python.parent / "lore-retriever", "--help"], capture_output=True, text=True, check=True
    )
    assert "recall" in done.stdout
