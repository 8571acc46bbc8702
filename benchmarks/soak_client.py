"""One client of the load in `soak.py`: draws operations, holds each answer against what must be so."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Sequence
from typing import Any

from soak_model import KINDS, NASTY, Held, Ledger, Name, content_of, fields_of, metadata_of, word_of

from lore_retriever import InvalidInput, LoreError, NewMemory, NotFound, StoreUnavailable
from lore_retriever.errors import IdTaken

__all__ = ["IDS", "Client", "held_of"]

IDS = (
    *(f"n{number}" for number in range(32)),
    "' OR 1=1 --",
    "本地/部署",
    "a b\tc",
    "%s",
    "👩‍👩‍👧",
    "NULL",
    "x" * 512,
    "\\",
)
"""Ids that every user draws from, so that the same ones exist beside each other."""

OPERATIONS = {
    "recall": 24,
    "recall_hostile": 8,
    "get": 12,
    "list": 4,
    "build_context": 3,
    "history": 1,
    "remember": 18,
    "remember_many": 4,
    "update_text": 6,
    "update_fields": 6,
    "invalidate": 4,
    "restore": 4,
    "forget": 4,
    "feedback": 2,
    "refused": 2,
    "contended": 6,
}
"""Weights of the mix."""

LONGEST_OUTAGE_S = 180
_MARK = re.compile(r"⟦([^/⟧]*)/([^⟧]*)⟧")


def held_of(memory: Any) -> Held:
    """A memory that the store returned, as the model keeps it."""
    return Held(
        memory.content, memory.kind, memory.visibility, memory.metadata, memory.pinned, memory.invalidated_at is None
    )


class Client:
    """The only writer of one user's memories."""

    def __init__(self, name: Name, view: Any, shared_by_all: Any, ledger: Ledger, seed: int) -> None:
        self.name = name
        self.view = view
        self.shared_by_all = shared_by_all
        self.ledger = ledger
        self.rng = random.Random(seed)
        self.mine: dict[str, Held] = {}

    def step(self) -> None:
        """One operation, timed; what goes wrong is noted, never raised."""
        kind = self.rng.choices(list(OPERATIONS), weights=list(OPERATIONS.values()))[0]
        began = time.perf_counter()
        try:
            getattr(self, f"_{kind}")(self.rng.choice(IDS))
        except StoreUnavailable as error:
            self.ledger.fail(error)
        except LoreError as error:
            self.ledger.fail(error)
            self._violate(f"{kind} raised {type(error).__name__}: {error}")
        except Exception as error:
            self.ledger.fail(error)
            self._violate(f"{kind} raised {type(error).__name__}, which is none of ours: {error}")
        self.ledger.took(kind, time.perf_counter() - began)

    def _violate(self, what: str) -> None:
        self.ledger.violate(f"{self.name[0]}/{self.name[1]}: {what}")

    # --- writes: the model changes when the store says so

    def _change(self, ids: Sequence[str], after: Sequence[Held | None], call: Callable[[], object]) -> None:
        before = [self.mine.get(memory_id) for memory_id in ids]
        for memory_id, held in zip(ids, after, strict=True):
            if held is not None and held.visibility == "shared":
                self.ledger.will_share(self.name, memory_id)
        try:
            call()
        except StoreUnavailable:
            self._settle(ids, before, after)
            raise
        except IdTaken as error:
            self.ledger.fail(error)
            if not any(self.ledger.is_shared_by_another(self.name, memory_id) for memory_id in ids):
                self._violate(f"{ids} taken, but nobody shares it")
            return
        self._know(ids, after)

    def _settle(self, ids: Sequence[str], before: Sequence[Held | None], after: Sequence[Held | None]) -> None:
        """Find out whether a write whose outcome is open arrived: all of it, or nothing."""
        self.ledger.count("open_outcomes")
        seen = [self._look(memory_id) for memory_id in ids]
        if seen not in (list(before), list(after)):
            self._violate(f"{ids}: neither as before nor as written: {seen} {list(before)} {list(after)}")
        self._know(ids, seen)

    def _look(self, memory_id: str) -> Held | None:
        deadline = time.monotonic() + LONGEST_OUTAGE_S
        while True:
            try:
                memory = self.view.get(memory_id)
            except NotFound:
                return None
            except StoreUnavailable as error:
                self.ledger.fail(error)
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
                continue
            return held_of(memory) if memory.owner == self.name[1] else None

    def _know(self, ids: Sequence[str], states: Sequence[Held | None]) -> None:
        for memory_id, held in zip(ids, states, strict=True):
            if held is None:
                self.mine.pop(memory_id, None)
            else:
                self.mine[memory_id] = held

    def _remember(self, memory_id: str) -> None:
        held = fields_of(self.rng, self.name, memory_id)
        self._change([memory_id], [held], lambda: self.view.remember_many([self._new(memory_id, held)]))

    def _remember_many(self, _: str) -> None:
        ids = self.rng.sample(IDS, self.rng.randrange(2, 6))
        batch = [fields_of(self.rng, self.name, memory_id).after(visibility="private") for memory_id in ids]
        new = [self._new(memory_id, held) for memory_id, held in zip(ids, batch, strict=True)]
        self._change(ids, batch, lambda: self.view.remember_many(new, embed=self.rng.random() < 0.8))

    def _new(self, memory_id: str, held: Held) -> NewMemory:
        return NewMemory(
            content=held.content,
            id=memory_id,
            kind=held.kind,
            visibility=held.visibility,
            metadata=held.metadata,
            pinned=held.pinned,
        )

    def _own(self, memory_id: str, call: Callable[[], object], changes: dict[str, Any] | None) -> None:
        """Change one memory (None: remove it); where it is none of one's own, that must be refused."""
        held = self.mine.get(memory_id)
        if held is None:
            try:
                call()
            except NotFound:
                return
            self._violate(f"changed {memory_id!r}, which is not there")
            return
        self._change([memory_id], [None if changes is None else held.after(**changes)], call)

    def _update_text(self, memory_id: str) -> None:
        text = content_of(self.rng, self.name, memory_id)
        self._own(memory_id, lambda: self.view.update(memory_id, content=text), {"content": text})

    def _update_fields(self, memory_id: str) -> None:
        drawn = {
            "visibility": self.rng.choice(("private", "private", "shared")),
            "kind": self.rng.choice(KINDS),
            "pinned": self.rng.random() < 0.2,
            "metadata": metadata_of(self.rng),
        }
        changes = {name: drawn[name] for name in self.rng.sample(sorted(drawn), self.rng.randrange(1, 4))}
        self._own(memory_id, lambda: self.view.update(memory_id, **changes), changes)

    def _invalidate(self, memory_id: str) -> None:
        self._own(memory_id, lambda: self.view.invalidate(memory_id), {"is_live": False})

    def _restore(self, memory_id: str) -> None:
        self._own(memory_id, lambda: self.view.restore(memory_id), {"is_live": True})

    def _forget(self, memory_id: str) -> None:
        self._own(memory_id, lambda: self.view.forget(memory_id), None)

    def _feedback(self, memory_id: str) -> None:
        try:
            self.view.feedback(memory_id, useful=self.rng.random() < 0.7, recall_id=str(self.rng.randrange(9)))
        except NotFound:
            if memory_id in self.mine:
                self._violate(f"no feedback on own {memory_id!r}")

    def _refused(self, memory_id: str) -> None:
        wrong: Sequence[Callable[[], object]] = (
            lambda: self.view.remember("a\x00b", id=memory_id),
            lambda: self.view.remember("\ud800", id=memory_id),
            lambda: self.view.remember("", id=memory_id),
            lambda: self.view.remember("x", id="y" * 513),
            lambda: self.view.remember("x", id=memory_id, metadata={"n": float("nan")}),
            lambda: self.view.recall("x", limit=0),
            lambda: self.view.recall("x", filter={"$nope": 1}),
            lambda: self.view.update(memory_id, content="\x00"),
            lambda: self.view.build_context("x", max_tokens=-1),
        )
        try:
            self.rng.choice(wrong)()
        except InvalidInput:
            return
        self._violate("a wrong argument was accepted")

    def _contended(self, memory_id: str) -> None:
        """A memory that every client of the organisation writes at once: only its inner state is checked, at the end."""
        place = f"c{len(memory_id) % 3}"
        text = content_of(self.rng, (self.name[0], "all"), place)
        calls: Sequence[Callable[[], object]] = (
            lambda: self.shared_by_all.remember(text, id=place),
            lambda: self.shared_by_all.remember("always the same text", id=place),
            lambda: self.shared_by_all.update(place, content=text),
            lambda: self.shared_by_all.update(place, pinned=True),
            lambda: self.shared_by_all.invalidate(place),
            lambda: self.shared_by_all.forget(place),
        )
        try:
            self.rng.choice(calls)()
        except NotFound:
            self.ledger.count("contended_not_found")

    # --- reads

    def _get(self, memory_id: str) -> None:
        held = self.mine.get(memory_id)
        try:
            memory = self.view.get(memory_id)
        except NotFound:
            if held is not None:
                self._violate(f"lost {memory_id!r}")
            return
        if memory.owner == self.name[1]:
            if held != held_of(memory):
                self._violate(f"{memory_id!r} is {held_of(memory)}, not {held}")
        elif held is not None or memory.visibility != "shared":
            self._violate(f"{memory_id!r} of {memory.owner!r} instead of one's own, or private")
        self._check_owner(memory.owner, memory.id, memory.content)

    def _check_owner(self, owner: str, memory_id: str, text: str) -> None:
        if not self.ledger.may_see(self.name, owner, memory_id):
            self._violate(f"saw {memory_id!r} of {owner!r}")
        self._check_marks(text)

    def _check_marks(self, text: str) -> None:
        for org, _ in _MARK.findall(text):
            if org != self.name[0]:
                self._violate(f"saw a text of {org}")

    def _list(self, _: str) -> None:
        found = self.view.list(limit=1000)
        own = {memory.id for memory in found if memory.owner == self.name[1]}
        live = {memory_id for memory_id, held in self.mine.items() if held.is_live}
        if own != live:
            self._violate(f"the list lacks {live - own} and has {own - live}")
        for memory in found:
            self._check_owner(memory.owner, memory.id, memory.content)

    def _recall(self, memory_id: str) -> None:
        found = self.view.recall(word_of(self.name, memory_id), limit=self.rng.choice((1, 5, 20)))
        own = {hit.id for hit in found.hits if hit.owner == self.name[1]}
        held = self.mine.get(memory_id)
        is_live = held is not None and held.is_live
        if is_live and memory_id not in own:
            self._violate(f"{memory_id!r} is not found by its own word (degraded: {found.degraded})")
        gone = {found_id for found_id in own if found_id not in self.mine or not self.mine[found_id].is_live}
        if gone:
            self._violate(f"found {gone}, which are forgotten or invalid")
        for hit in found.hits:
            self._check_owner(hit.owner, hit.id, hit.text)

    def _recall_hostile(self, _: str) -> None:
        options: dict[str, Any] = self.rng.choice(
            (
                {},
                {"kinds": ["fact", "of my own"]},
                {"filter": {"team": "O'Brien"}},
                {"filter": {"n": {"$gte": 9}}},
                {"filter": {"$or": [{"lore_pinned": True}, {"deep.er": {"$exists": True}}]}},
            )
        )
        found = self.view.recall(self.rng.sample(NASTY, self.rng.randrange(1, 3)), **options)
        for hit in found.hits:
            self._check_owner(hit.owner, hit.id, hit.text)
            if "kinds" in options and hit.kind not in options["kinds"]:
                self._violate(f"kind {hit.kind!r} passed the filter")

    def _build_context(self, memory_id: str) -> None:
        budget = self.rng.choice((0, 1, 50, 400, 2000))
        briefing = self.view.build_context(word_of(self.name, memory_id), max_tokens=budget)
        if briefing.used_tokens > budget:
            self._violate(f"a briefing of {briefing.used_tokens} tokens for {budget}")
        self._check_marks(briefing.text)

    def _history(self, memory_id: str) -> None:
        try:
            self.view.history(memory_id)
        except NotFound:
            if memory_id in self.mine:
                self._violate(f"no history of own {memory_id!r}")
