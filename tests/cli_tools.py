"""Runs the command line as a test: in this process, or in one of its own that can be killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from lore_retriever.cli.app import app

# A test run in the background hands down that interrupts are ignored, one under nohup that a closed terminal is.
_PROGRAM = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); signal.signal(signal.SIGHUP, signal.SIG_DFL);"
    " from lore_retriever.cli import main; main()"
)


@dataclass(frozen=True)
class CommandLine:
    """`lore-retriever`, with these variables set and no others of its own."""

    environment: Mapping[str, str]

    def __call__(self, *arguments: str, input: str | bytes | None = None) -> Any:  # noqa: A002
        """Run it here; the result has `exit_code`, `stdout` and `stderr`."""
        cleared = {name: None for name in os.environ if name.startswith("LORE_")}
        runner = CliRunner(env={**cleared, "COLUMNS": "100", **self.environment})
        result = runner.invoke(app, list(arguments), input=input)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        """Run it in a process of its own."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LORE_")}
        source = str(Path(__file__).parents[1] / "src")
        return subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, *arguments],
            env={**kept, "COLUMNS": "100", "PYTHONPATH": source, **self.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )


def ana_of(database: str, admin_database: str | None = None) -> CommandLine:
    """The command line of acme's ana on a database."""
    environment = {"LORE_DATABASE": database, "LORE_ORG": "acme", "LORE_USER": "ana"}
    return CommandLine(environment | ({"LORE_ADMIN_DATABASE": admin_database} if admin_database else {}))
