"""Random operations of two users of one organisation and one of another, against a model in plain Python."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from lore_retriever import InvalidInput, MemoryStore, NewMemory, NotFound
from lore_retriever.errors import IdTaken
from lore_retriever.testing import HashEmbedder
from support import as_application, kept_database

NASTY = (
    "plain words",
    "' OR 1=1 --",
    "a & b | !c:* (d) <-> 'e'",
    "100% _sure_ \\ %s %(x)s {0} $1",
    'say "ERR-4471" to 10.0.0.7:5432/v1.2.3',
    "本地部署方案 go service デプロイ 서버",
    "Ünïcödé ﬁ İstanbul e\u0301 \u200b\u202e\ufeff",
    "👩‍👩‍👧 🏳️‍🌈",
    "\t tabs\r\nand\x0blines\u2028here\x1f",
    "$.a[*] ? (@ == 1)",
    "-" * 40,
    "x" * 1500,
    "and so on. " * 250,
    "NULL",
)
IDS = ("a", "b", "' OR 1=1 --", "%s", "本地/部署", "x" * 512)
ALL_USERS = ("ana", "ben", "eve")
METADATA = ({}, {"team": "O'Brien"}, {"n": 9}, {"n": "9"}, {"deep": {"er": [None, True, 2.5]}}, {"": "", "$eq": "x"})

users = st.sampled_from(ALL_USERS)
ids = st.sampled_from(IDS)
texts = st.sampled_from(NASTY) | st.text(min_size=1, max_size=30).filter(
    lambda text: text.strip() and "\x00" not in text and text.isprintable()
)
visibilities = st.sampled_from(("private", "shared"))
kinds = st.sampled_from(("fact", "task", "of my own"))
metadata = st.sampled_from(METADATA)


@dataclass(frozen=True)
class Held:
    """A memory as the model knows it."""

    content: str
    kind: str
    visibility: str
    metadata: dict[str, Any]
    pinned: bool = False
    is_live: bool = True
    replaced: tuple[str, ...] = field(default=())


class Memories(RuleBasedStateMachine):
    """ana and ben share an organisation, eve has one to herself. The model is exact."""

    store: MemoryStore
    numbers = itertools.count()

    def __init__(self) -> None:
        super().__init__()
        number = next(self.numbers)
        self.orgs = {"ana": f"acme {number}", "ben": f"acme {number}", "eve": f"globex {number}"}
        self.views: dict[str, Any] = {user: self.store.as_user(self.orgs[user], user) for user in ALL_USERS}
        self.held: dict[tuple[str, str], Held] = {}
        self.words = itertools.count()

    # --- the model

    def _colleague(self, user: str) -> str | None:
        return {"ana": "ben", "ben": "ana"}.get(user)

    def _is_taken(self, user: str, memory_id: str) -> bool:
        other = self.held.get((self._colleague(user) or "", memory_id))
        return other is not None and other.visibility == "shared"

    def _visible(self, user: str) -> dict[tuple[str, str], Held]:
        mine = {place: held for place, held in self.held.items() if place[0] == user and held.is_live}
        colleague = self._colleague(user)
        shared = {
            place: held
            for place, held in self.held.items()
            if place[0] == colleague and held.is_live and held.visibility == "shared"
        }
        return mine | shared

    def _write(self, user: str, memory_id: str, after: Held, call: Callable[[], object]) -> None:
        if after.visibility == "shared" and self._is_taken(user, memory_id):
            with pytest.raises(IdTaken):
                call()
            return
        call()
        self.held[user, memory_id] = after

    def _on_own(self, user: str, memory_id: str, call: Callable[[], object]) -> Held | None:
        """The memory, if it is the user's own; else the call is refused."""
        held = self.held.get((user, memory_id))
        if held is None:
            with pytest.raises(NotFound):
                call()
        return held

    def _text(self, given: str) -> str:
        return f"word{next(self.words)}w {given}"

    # --- writes

    @rule(
        user=users, memory_id=ids, text=texts, kind=kinds, visibility=visibilities, meta=metadata, pinned=st.booleans()
    )
    def remember(
        self, user: str, memory_id: str, text: str, kind: str, visibility: Any, meta: dict[str, Any], pinned: bool
    ) -> None:
        before = self.held.get((user, memory_id))
        content = self._text(text)
        replaced = () if before is None else (*before.replaced, before.content)
        after = Held(content, kind, visibility, meta, pinned, replaced=replaced)
        new = NewMemory(content=content, id=memory_id, kind=kind, visibility=visibility, metadata=meta, pinned=pinned)
        self._write(user, memory_id, after, lambda: self.views[user].remember_many([new]))

    @rule(user=users, batch=st.lists(st.tuples(ids, texts), min_size=2, max_size=4), bad=st.booleans())
    def remember_many(self, user: str, batch: list[tuple[str, str]], bad: bool) -> None:
        new = [NewMemory(content=self._text(text), id=memory_id) for memory_id, text in batch]
        if bad:
            with pytest.raises(InvalidInput):
                self.views[user].remember_many([*new, NewMemory(content="\x00", id="bad")])
            return
        self.views[user].remember_many(new)
        for memory in {memory.id: memory for memory in new}.values():  # the last of an id wins
            before = self.held.get((user, str(memory.id)))
            replaced = () if before is None else (*before.replaced, before.content)
            self.held[user, str(memory.id)] = Held(memory.content, "fact", "private", {}, replaced=replaced)

    @rule(user=users, memory_id=ids, text=texts)
    def update_text(self, user: str, memory_id: str, text: str) -> None:
        content = self._text(text)
        if held := self._on_own(user, memory_id, lambda: self.views[user].update(memory_id, content=content)):
            self.views[user].update(memory_id, content=content)
            self.held[user, memory_id] = replace(held, content=content, replaced=(*held.replaced, held.content))

    @rule(user=users, memory_id=ids, visibility=visibilities, kind=kinds, meta=metadata)
    def update_fields(self, user: str, memory_id: str, visibility: Any, kind: str, meta: dict[str, Any]) -> None:
        def call() -> None:
            self.views[user].update(memory_id, visibility=visibility, kind=kind, metadata=meta)

        if held := self._on_own(user, memory_id, call):
            self._write(user, memory_id, replace(held, visibility=visibility, kind=kind, metadata=meta), call)

    @rule(user=users, memory_id=ids)
    def invalidate(self, user: str, memory_id: str) -> None:
        if held := self._on_own(user, memory_id, lambda: self.views[user].invalidate(memory_id)):
            self.views[user].invalidate(memory_id)
            self.held[user, memory_id] = replace(held, is_live=False)

    @rule(user=users, memory_id=ids)
    def restore(self, user: str, memory_id: str) -> None:
        if held := self._on_own(user, memory_id, lambda: self.views[user].restore(memory_id)):
            self.views[user].restore(memory_id)
            self.held[user, memory_id] = replace(held, is_live=True)

    @rule(user=users, memory_id=ids)
    def forget(self, user: str, memory_id: str) -> None:
        if self._on_own(user, memory_id, lambda: self.views[user].forget(memory_id)):
            self.views[user].forget(memory_id)
            del self.held[user, memory_id]

    # --- reads

    @rule(user=users, memory_id=ids)
    def get(self, user: str, memory_id: str) -> None:
        place = (user, memory_id)
        if place not in self.held:
            place = (self._colleague(user) or "", memory_id)
            if place not in self._visible(user):
                with pytest.raises(NotFound):
                    self.views[user].get(memory_id)
                return
        held, memory = self.held[place], self.views[user].get(memory_id)
        assert (memory.owner, memory.id) == place
        assert (memory.content, memory.kind, memory.visibility) == (held.content, held.kind, held.visibility)
        assert (memory.metadata, memory.pinned) == (held.metadata, held.pinned)
        assert (memory.invalidated_at is None) is held.is_live

    @rule(user=users, memory_id=ids)
    def history(self, user: str, memory_id: str) -> None:
        if held := self._on_own(user, memory_id, lambda: self.views[user].history(memory_id)):
            entries = self.views[user].history(memory_id)
            assert tuple(entry.content for entry in entries if entry.event == "updated") == held.replaced

    @rule(user=users, limit=st.integers(1, 20), kind=st.none() | kinds)
    def list(self, user: str, limit: int, kind: str | None) -> None:
        expected = {place for place, held in self._visible(user).items() if kind in (None, held.kind)}
        found = [(memory.owner, memory.id) for memory in self.views[user].list(limit=limit, kind=kind)]
        assert len(found) == len(set(found)) == min(limit, len(expected))
        assert set(found) <= expected

    @rule(user=users, text=texts, limit=st.integers(1, 20), kind=st.none() | kinds)
    def recall(self, user: str, text: str, limit: int, kind: str | None) -> None:
        expected = {place for place, held in self._visible(user).items() if kind in (None, held.kind)}
        found = self.views[user].recall(text, limit=limit, kinds=None if kind is None else [kind])
        places = [(hit.owner, hit.id) for hit in found.hits]
        assert len(places) == len(set(places)) <= limit
        assert set(places) <= expected
        for hit in found.hits:
            assert hit.text in self.held[hit.owner, hit.id].content

    @rule(user=users, memory_id=ids)
    def recall_each_text_by_its_own_word(self, user: str, memory_id: str) -> None:
        for place, held in self.held.items():
            if place[1] != memory_id:
                continue
            found = [(hit.owner, hit.id) for hit in self.views[user].recall(held.content.split()[0], limit=1000).hits]
            assert (place in found) is (place in self._visible(user))
            for gone in held.replaced[-1:]:
                hits = self.views[user].recall(gone.split()[0], limit=1000).hits
                assert not any("exact" in hit.legs for hit in hits)

    @rule(user=users, text=texts, budget=st.sampled_from((0, 1, 40, 300, 5000)))
    def build_context(self, user: str, text: str, budget: int) -> None:
        made = self.views[user].build_context(text, max_tokens=budget)
        assert made.used_tokens <= budget
        assert {item.id for item in made.items} <= {memory_id for _, memory_id in self._visible(user)}

    @invariant()
    def each_sees_what_the_model_says(self) -> None:
        for user in ALL_USERS:
            found = {(memory.owner, memory.id) for memory in self.views[user].list(limit=1000)}
            assert found == set(self._visible(user))


@pytest.fixture(scope="module")
def store(create_database: Callable[..., str], template: str) -> Iterator[MemoryStore]:
    with (
        kept_database(create_database, template) as conninfo,
        MemoryStore.connect(as_application(conninfo), embedder=HashEmbedder(32)) as opened,
    ):
        yield opened


def test_random_operations_agree_with_the_model(store: MemoryStore) -> None:
    Memories.store = store
    calm = settings(
        max_examples=12,
        stateful_step_count=25,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(Memories, settings=calm)  # type: ignore[no-untyped-call]
