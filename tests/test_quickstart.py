"""The quick start runs as it is, in a process of its own, and prints what its comments say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_the_quick_start_prints_what_its_comments_say() -> None:
    root = Path(__file__).parents[1]
    example = root / "examples" / "quickstart.py"
    done = subprocess.run(
        [sys.executable, "-W", "error", str(example)],
        env={**os.environ, "PYTHONPATH": str(root / "src")},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = [line.removeprefix("# ") for line in example.read_text(encoding="utf-8").splitlines() if line[:2] == "# "]
    *hits, _ = said
    assert done.stdout.splitlines()[: len(hits)] == hits
    assert "§ nordlicht" in done.stdout
