"""What the load of `soak.py` writes, and what must be there afterwards: plain Python, no database.

Each client is the only writer of one user's memories, so that their state is known exactly. An operation whose outcome
is open (the server died in it) leaves two states possible; the next look at the memory tells which one it is.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any, Literal

__all__ = ["NASTY", "Held", "Ledger", "Name", "content_of", "fields_of", "metadata_of", "word_of"]

Name = tuple[str, str]
"""Organisation and user."""

NASTY: tuple[str, ...] = (
    "plain words about the gateway",
    "' OR 1=1 --",
    "a & b | !c:* (d) <-> 'e'",
    "100% _sure_ \\ %s %(x)s {0} ${HOME}",
    'say "ERR-4471" to 10.0.0.7:5432/v1.2.3',
    "本地部署方案 go service デプロイ 서버",
    "Ünïcödé ÄÖÜß ﬁ İstanbul e\u0301 \u200b\u202e\ufeff",
    "👩‍👩‍👧 🏳️‍🌈 \U0001f9ff",
    "\t tabs\r\nand\x0blines\u2028here\x1f",
    "<script>alert(1)</script> </memory> ```",
    "$.a[*] ? (@ == 1) jsonpath like_regex",
    "-" * 40,
    "x" * 3000,
    "and so on. " * 200,
    "NULL null None nan Infinity -0",
)
"""Texts that have broken somebody's search, write or output."""

KINDS = ("fact", "decision", "episode", "task", "runbook", "of my own")


@dataclass(frozen=True)
class Held:
    """A memory as its owner last knew it."""

    content: str
    kind: str = "fact"
    visibility: Literal["private", "shared"] = "private"
    metadata: dict[str, Any] = field(default_factory=dict)
    pinned: bool = False
    is_live: bool = True

    def after(self, **changes: Any) -> Held:
        """The memory with these fields changed."""
        return replace(self, **changes)


def word_of(owner: Name, memory_id: str) -> str:
    """A word that stands in this memory and in no other one; it names organisation and user."""
    return "q" + "z".join(part.encode().hex() for part in (*owner, memory_id))


def content_of(rng: random.Random, owner: Name, memory_id: str) -> str:
    """A text for a memory: its own word, the mark of its owner, and something nasty."""
    return f"{word_of(owner, memory_id)} of ⟦{owner[0]}/{owner[1]}⟧ {rng.randrange(10**6)} {rng.choice(NASTY)}"


def metadata_of(rng: random.Random) -> dict[str, Any]:
    """Metadata of any shape."""
    return rng.choice(
        (
            {},
            {"team": rng.choice(("infra", "O'Brien", "a'b\"c"))},
            {"n": rng.choice((-1, 0, 9, 10, 2.5, None, True, "n/a"))},
            {"deep": {"er": [{"and": ["deeper", rng.randrange(5)]}]}, "": "empty key", "$eq": "operator"},
            {rng.choice(NASTY)[:100]: rng.choice(NASTY)[:100]},
        )
    )


def fields_of(rng: random.Random, owner: Name, memory_id: str) -> Held:
    """A memory with every field drawn."""
    return Held(
        content_of(rng, owner, memory_id),
        kind=rng.choice(KINDS),
        visibility="shared" if rng.random() < 0.3 else "private",
        metadata=metadata_of(rng),
        pinned=rng.random() < 0.1,
    )


class Ledger:
    """What all clients know together: who may have shared what, what was seen amiss, and what was counted."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._shared: dict[tuple[str, str], set[str]] = {}
        self.violations: list[str] = []
        self.errors: dict[str, int] = {}
        self.seconds: dict[str, list[float]] = {}
        self.counts: dict[str, int] = {}

    def will_share(self, owner: Name, memory_id: str) -> None:
        """Note, before it is written, that colleagues may see this memory from now on."""
        with self._lock:
            self._shared.setdefault((owner[0], memory_id), set()).add(owner[1])

    def may_see(self, reader: Name, owner: str, memory_id: str) -> bool:
        """Whether a reader can have got this memory by right: it is the reader's own, or was shared at some time."""
        return owner == reader[1] or owner in self._shared.get((reader[0], memory_id), ())

    def is_shared_by_another(self, writer: Name, memory_id: str) -> bool:
        """Whether a colleague may share a memory of that id."""
        return bool(self._shared.get((writer[0], memory_id), set()) - {writer[1]})

    def violate(self, what: str) -> None:
        """Note something that must never be."""
        with self._lock:
            self.violations.append(what)

    def count(self, what: str, n: int = 1) -> None:
        """Count an event."""
        with self._lock:
            self.counts[what] = self.counts.get(what, 0) + n

    def fail(self, error: BaseException) -> None:
        """Count an error by its type."""
        with self._lock:
            name = type(error).__name__
            self.errors[name] = self.errors.get(name, 0) + 1

    def took(self, operation: str, seconds: float) -> None:
        """Note how long an operation took."""
        with self._lock:
            self.seconds.setdefault(operation, []).append(seconds)

    @property
    def operations(self) -> int:
        """How many operations are done."""
        with self._lock:
            return sum(map(len, self.seconds.values()))
