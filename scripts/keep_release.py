"""Keep a database of a release, with data in it, so that tests can upgrade it for ever: tests/data/releases/VERSION.sql.gz.

python scripts/keep_release.py 0.1.0              # a built-in Postgres in a temporary folder

Run it once, from the release's own checkout, when a version is published. The dump names roles and extensions, which
`tests/test_upgrade.py` sees to before it restores.
"""

from __future__ import annotations

import gzip
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import psycopg

sys.path.insert(0, str(Path(__file__).parent))

from dump_schema import pg_dump

from lore_retriever import MemoryStore, NewMemory, embedded
from lore_retriever.admin import StoreAdmin
from lore_retriever.testing import HashEmbedder

FOLDER = Path(__file__).parents[1] / "tests" / "data" / "releases"
SCOPES = (("acme", "ana"), ("acme", "ben"), ("globex", "eve"))
EMBEDDER = HashEmbedder(32)
_LONG = "\n\n".join(
    f"Paragraph {n} of a long text about the gateway, which restarts at {n} o'clock." for n in range(60)
)


def fill(conninfo: str) -> None:
    """Migrate an empty database, and store something of every sort in it."""
    admin = StoreAdmin.connect(conninfo)
    admin.migrate(EMBEDDER)
    with MemoryStore.connect(conninfo, embedder=EMBEDDER) as store:
        for org, user in SCOPES:
            view = store.as_user(org, user)
            view.remember_many(_memories(org, user))
            view.remember_many([NewMemory(content="waits for its vectors", id="waiting")], embed=False)
            view.update("changed", content=f"the text of {user} as it is now")
            view.invalidate("old", superseded_by="changed")
            view.invalidate("back")
            view.restore("back")
            view.feedback("voted", useful=True, recall_id="one")
            view.feedback("voted", useful=True, recall_id="two")
            view.add_alias("k8s", "Kubernetes")
    admin.maintain()
    with psycopg.connect(conninfo, autocommit=True) as connection:
        # Codes, which only large organisations would have: a centre, then those of the vectors that are there.
        connection.execute("SET search_path = lore, public")
        connection.execute(
            "INSERT INTO centres (space, centre, embedding) VALUES (1, 1, array_fill(0, ARRAY[32])::halfvec)"
        )
        connection.execute(
            "INSERT INTO codes SELECT org, space, 1, key, ordinal, owner, shared, live, expires_at, created_at,"
            " binary_quantize(embedding) FROM vectors"
        )
        connection.execute("INSERT INTO fusion_config (rrf_k) VALUES (50)")


def _memories(org: str, user: str) -> list[NewMemory]:
    known = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    return [
        NewMemory(content=f"ERR-4471: the gateway of {org} restarts, says {user}", id="note", kind="reference"),
        NewMemory(
            content=_LONG, id="long", kind="runbook", pinned=True, metadata={"team": "infra", "n": [1, {"a": None}]}
        ),
        NewMemory(
            content=f"shared by {user}: 本地部署方案",
            id=f"shared by {user}",
            visibility="shared",
            aliases=(f"{user}'s plan",),
        ),
        NewMemory(content=f"an old text of {user}", id="old", created_at=known),
        NewMemory(content=f"the text of {user} as it was", id="changed", agent="a", session="s", source="u", trust="t"),
        NewMemory(content="gone, and back", id="back", language="en"),
        NewMemory(content="useful twice", id="voted", expires_at=known.replace(year=2099)),
    ]


def keep(version: str) -> Path:
    """Make the database and write its dump; where."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    target = FOLDER / f"{version}.sql.gz"
    with tempfile.TemporaryDirectory() as folder, embedded.start(Path(folder) / "data") as server:
        fill(server.conninfo())
        target.write_bytes(gzip.compress(dump(server.conninfo()), mtime=0))
    return target


def dump(conninfo: str) -> bytes:
    """The schema `lore` of a database with all its rows, as SQL."""
    command = [pg_dump(), "--schema=lore", "--dbname", conninfo]
    return subprocess.run(command, capture_output=True, check=True).stdout


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    print(f"wrote {keep(sys.argv[1])}")
