"""What one caller can do with a store: `Memories` and `AsyncMemories`, the same methods twice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

from lore_retriever.context import CountTokens
from lore_retriever.explanation import Explanation
from lore_retriever.filters.tree import Filter
from lore_retriever.inputs import given_queries, new_memory
from lore_retriever.operations import aliases, briefing, feedback, life, reading, writing
from lore_retriever.operations.writing import StoredIds
from lore_retriever.types import Briefing, Change, Memory, Misled, NewMemory, Recall, Reinforcement, Scope, SectionName

if TYPE_CHECKING:
    from lore_retriever.store import AsyncMemoryStore, MemoryStore

__all__ = ["AsyncMemories", "Memories"]

FilterInput: TypeAlias = "Mapping[str, Any] | Filter | None"
Page = list[Memory]
Ids = list[str]
Misleaders = list[Misled]
Changes = list[Change]
Groups = list[tuple[str, ...]]


class _SearchArguments(TypedDict):
    limit: int
    filter: FilterInput
    kinds: Sequence[str] | None
    as_of: datetime | None


class Memories:
    """A store as one caller sees it: the organisation's shared memories and the user's own.

    Made by `MemoryStore.as_user` or `as_caller`; cheap, safe to share between threads.
    """

    def __init__(self, store: MemoryStore, scope: Callable[[], Scope]) -> None:
        self.store = store
        self._scope = scope

    @property
    def scope(self) -> Scope:
        """On whose behalf the next call runs."""
        return self._scope()

    def remember(self, content: str, *, id: str | None = None, **fields: Any) -> str:  # noqa: A002
        """Store one memory; its id. `fields` are those of `NewMemory`; an own memory of that id is replaced.

        Raises:
            InvalidInput: If a field cannot be stored; nothing is.
        """
        return self.remember_many([new_memory(content=content, id=id, **fields)])[0]

    def remember_many(
        self,
        memories: Iterable[NewMemory],
        *,
        embed: bool = True,
        on_error: Literal["raise", "skip"] = "raise",
        progress: Callable[[int, int], None] | None = None,
    ) -> StoredIds:
        """Store memories in one transaction, whole or not at all; their ids.

        Args:
            memories: Any iterable. The last of several with one id wins.
            embed: False leaves the vectors to `embed`: searchable at once by the lexical legs.
            on_error: `skip` leaves out what is refused, logs it, and names it in `.refused` of what is returned.
            progress: Called with (done, total) windows while they are embedded.
        """
        space = self.store.space
        ids: StoredIds = self.store.perform(
            writing.remember_many(space, memories, embed=embed, on_error=on_error, progress=progress),
            self.scope,
        )
        return ids

    def recall(
        self,
        query: str | Iterable[str],
        *,
        limit: int = 10,
        filter: FilterInput = None,  # noqa: A002
        kinds: Sequence[str] | None = None,
        as_of: datetime | None = None,
    ) -> Recall:
        """Search: one SQL statement, at most `limit` hits, best first.

        Args:
            query: One query, or up to eight short ones that are fused into one ranking.
            filter: Conditions on metadata and on `lore_…` fields, in the `$` language.
            kinds: Only memories of these kinds.
            as_of: A point in time; what was created later, or was invalid or expired then, is not seen.

        Raises:
            InvalidInput: If an argument cannot be used.
            EmbeddingFailed: If the query cannot be embedded and the store was opened with `on_embedding_error="raise"`.
        """
        queries = given_queries(query)
        given: _SearchArguments = {"limit": limit, "filter": filter, "kinds": kinds, "as_of": as_of}
        found: Recall = self.store.perform(reading.recall(self.store.space, queries, **given), self.scope)
        return found.bound(lambda: self.explain(queries, **given))

    def explain(
        self,
        query: str | Iterable[str],
        *,
        limit: int = 10,
        filter: FilterInput = None,  # noqa: A002
        kinds: Sequence[str] | None = None,
        as_of: datetime | None = None,
    ) -> Explanation:
        """The same search taken apart: what each leg proposed, the words it looked for, times, the SQL."""
        operation = reading.explain(self.store.space, query, limit=limit, filter=filter, kinds=kinds, as_of=as_of)
        made: Explanation = self.store.perform(operation, self.scope)
        return made

    def add_alias(self, name: str, *others: str) -> None:
        """Record that these are names of one thing, for the whole organisation; either finds the others.

        Raises:
            InvalidInput: If fewer than two different names are given, or one holds no letter or digit.
        """
        self.store.perform(aliases.add_alias([name, *others]), self.scope)

    def remove_alias(self, name: str) -> None:
        """Take a name out of its group.

        Raises:
            NotFound: If the organisation records no such name.
        """
        self.store.perform(aliases.remove_alias(name), self.scope)

    def aliases(self) -> Groups:
        """The organisation's groups of names."""
        groups: Groups = self.store.perform(aliases.list_aliases(), self.scope)
        return groups

    def build_context(
        self,
        query: str | Iterable[str] | None = None,
        *,
        max_tokens: int = 2000,
        count_tokens: CountTokens | None = None,
        filter: FilterInput = None,  # noqa: A002
        kinds: Sequence[str] | None = None,
        as_of: datetime | None = None,
        sections: Iterable[SectionName] | None = None,
        style: Literal["markdown", "plain"] = "markdown",
    ) -> Briefing:
        """A briefing: pinned memories, what the queries find, recent ones and open tasks, within a budget of tokens.

        One search and one list in one transaction. The budget decides how much of each memory is shown, never which
        comes first: the order is that of `recall(query, limit=100)`. Memories are quoted as data.

        Args:
            query: One query, several short ones, or None (the start of a session: no search).
            max_tokens: Most tokens of the text, headings and separators included. 0 gives an empty text.
            count_tokens: How your model counts: a function from text to a number or to tokens, a tokenizer with
                `encode`, or a framework's counter. None: the embedder's tokenizer where it has one, else an estimate;
                `Briefing.counter` says which.
            filter, kinds, as_of: As for `recall`; they hold for every section.
            sections: Those wanted of `pinned`, `relevant`, `recent`, `open_tasks`; all if None.
            style: `markdown`, or `plain` without any markup.

        Raises:
            InvalidInput: If an argument cannot be used; a negative budget, for one.
            EmbeddingFailed: As for `recall`.
        """
        operation = briefing.build_context(
            self.store.space,
            query,
            max_tokens=max_tokens,
            count_tokens=count_tokens,
            filter=filter,
            kinds=kinds,
            as_of=as_of,
            sections=sections,
            style=style,
        )
        made: Briefing = self.store.perform(operation, self.scope)
        return made

    def get(self, id: str) -> Memory:  # noqa: A002
        """The whole memory of that id; one's own wins over a shared one.

        Raises:
            NotFound: If none is visible here.
        """
        memory: Memory = self.store.perform(reading.get_memory(id), self.scope)
        return memory

    def list(
        self,
        *,
        limit: int = 50,
        kind: str | None = None,
        pinned: bool | None = None,
        after: str | Memory | None = None,
        filter: FilterInput = None,  # noqa: A002
    ) -> Page:
        """Visible memories, newest first, texts cut to 1,200 characters.

        Args:
            after: The last memory of the page before. Its id does, too, unless a colleague shares one of the same id: an
                id alone means one's own.

        Raises:
            NotFound: If that memory is not visible any more, so that no page comes after it.
        """
        operation = reading.list_memories(limit=limit, kind=kind, pinned=pinned, after=after, filter=filter)
        found: Page = self.store.perform(operation, self.scope)
        return found

    def update(self, id: str, *, version: int | None = None, **changes: Any) -> None:  # noqa: A002
        """Change fields of an own memory; a new text replaces windows and vectors with it.

        Args:
            version: Only if it is still at this version.

        Raises:
            NotFound: If no memory of one's own has that id.
            InvalidInput: If a field cannot be stored, or the version has moved on.
        """
        self.store.perform(writing.update(self.store.space, id, changes, version=version), self.scope)

    def invalidate(self, id: str, *, superseded_by: str | None = None) -> None:  # noqa: A002
        """Take an own memory out of every search; `superseded_by` names its visible successor.

        Raises:
            NotFound: If either is not there.
        """
        self.store.perform(writing.invalidate(id, superseded_by=superseded_by), self.scope)

    def history(self, id: str) -> Changes:  # noqa: A002
        """Every change of an own memory, oldest first: texts that were replaced, invalidations, restorations.

        Raises:
            NotFound: If no memory of one's own has that id.
        """
        found: Changes = self.store.perform(life.history(id), self.scope)
        return found

    def restore(self, id: str) -> None:  # noqa: A002
        """Make an invalidated own memory live again.

        Raises:
            NotFound: If no memory of one's own has that id.
        """
        self.store.perform(writing.restore(id), self.scope)

    def forget(self, id: str) -> None:  # noqa: A002
        """Remove an own memory from every table, for good.

        Raises:
            NotFound: If no memory of one's own has that id.
        """
        self.store.perform(writing.forget_one(id), self.scope)

    def forget_many(self, ids: Iterable[str]) -> Ids:
        """Remove own memories from every table; the ids that were there. Unknown ids are no error."""
        gone: Ids = self.store.perform(writing.forget(ids), self.scope)
        return gone

    def feedback(self, id: str, *, useful: bool, recall_id: str | None = None) -> Reinforcement:  # noqa: A002
        """Say that a visible memory was useful, or that it misled; how it stands then.

        Counts once for each memory, user and recall; a second vote replaces the first. Later searches multiply its
        relevance by `Reinforcement.multiplier`. Being found or shown counts for nothing.

        Args:
            recall_id: `Recall.id` or `Briefing.recall_id` of the search that brought it up. Searches are not kept, so
                it is not looked up: it only tells the votes of one search from those of another.

        Raises:
            NotFound: If no memory of that id is visible here.
        """
        stands: Reinforcement = self.store.perform(
            feedback.feedback(id, useful=useful, recall_id=recall_id), self.scope
        )
        return stands

    def misled(self, *, limit: int = 50) -> Misleaders:
        """Visible memories that misled at least twice and more often than they were useful: worth a review."""
        found: Misleaders = self.store.perform(feedback.misled(limit), self.scope)
        return found


class AsyncMemories:
    """`Memories`, awaited. Made by `AsyncMemoryStore.as_user` or `as_caller`."""

    def __init__(self, store: AsyncMemoryStore, scope: Callable[[], Scope]) -> None:
        self.store = store
        self._scope = scope

    @property
    def scope(self) -> Scope:
        """On whose behalf the next call runs."""
        return self._scope()

    async def remember(self, content: str, *, id: str | None = None, **fields: Any) -> str:  # noqa: A002
        """As `Memories.remember`."""
        return (await self.remember_many([new_memory(content=content, id=id, **fields)]))[0]

    async def remember_many(
        self,
        memories: Iterable[NewMemory],
        *,
        embed: bool = True,
        on_error: Literal["raise", "skip"] = "raise",
        progress: Callable[[int, int], None] | None = None,
    ) -> StoredIds:
        """As `Memories.remember_many`."""
        space = await self.store.open_space()
        ids: StoredIds = await self.store.perform(
            writing.remember_many(space, memories, embed=embed, on_error=on_error, progress=progress),
            self.scope,
        )
        return ids

    async def recall(
        self,
        query: str | Iterable[str],
        *,
        limit: int = 10,
        filter: FilterInput = None,  # noqa: A002
        kinds: Sequence[str] | None = None,
        as_of: datetime | None = None,
    ) -> Recall:
        """As `Memories.recall`."""
        queries = given_queries(query)
        given: _SearchArguments = {"limit": limit, "filter": filter, "kinds": kinds, "as_of": as_of}
        space = await self.store.open_space()
        found: Recall = await self.store.perform(reading.recall(space, queries, **given), self.scope)
        return found.bound(lambda: self.explain(queries, **given))

    async def explain(
        self,
        query: str | Iterable[str],
        *,
        limit: int = 10,
        filter: FilterInput = None,  # noqa: A002
        kinds: Sequence[str] | None = None,
        as_of: datetime | None = None,
    ) -> Explanation:
        """As `Memories.explain`."""
        space = await self.store.open_space()
        operation = reading.explain(space, query, limit=limit, filter=filter, kinds=kinds, as_of=as_of)
        made: Explanation = await self.store.perform(operation, self.scope)
        return made

    async def add_alias(self, name: str, *others: str) -> None:
        """As `Memories.add_alias`."""
        await self.store.perform(aliases.add_alias([name, *others]), self.scope)

    async def remove_alias(self, name: str) -> None:
        """As `Memories.remove_alias`."""
        await self.store.perform(aliases.remove_alias(name), self.scope)

    async def aliases(self) -> Groups:
        """As `Memories.aliases`."""
        groups: Groups = await self.store.perform(aliases.list_aliases(), self.scope)
        return groups

    async def build_context(
        self,
        query: str | Iterable[str] | None = None,
        *,
        max_tokens: int = 2000,
        count_tokens: CountTokens | None = None,
        filter: FilterInput = None,  # noqa: A002
        kinds: Sequence[str] | None = None,
        as_of: datetime | None = None,
        sections: Iterable[SectionName] | None = None,
        style: Literal["markdown", "plain"] = "markdown",
    ) -> Briefing:
        """As `Memories.build_context`."""
        operation = briefing.build_context(
            await self.store.open_space(),
            query,
            max_tokens=max_tokens,
            count_tokens=count_tokens,
            filter=filter,
            kinds=kinds,
            as_of=as_of,
            sections=sections,
            style=style,
        )
        made: Briefing = await self.store.perform(operation, self.scope)
        return made

    async def get(self, id: str) -> Memory:  # noqa: A002
        """As `Memories.get`."""
        memory: Memory = await self.store.perform(reading.get_memory(id), self.scope)
        return memory

    async def list(
        self,
        *,
        limit: int = 50,
        kind: str | None = None,
        pinned: bool | None = None,
        after: str | Memory | None = None,
        filter: FilterInput = None,  # noqa: A002
    ) -> Page:
        """As `Memories.list`."""
        operation = reading.list_memories(limit=limit, kind=kind, pinned=pinned, after=after, filter=filter)
        found: Page = await self.store.perform(operation, self.scope)
        return found

    async def update(self, id: str, *, version: int | None = None, **changes: Any) -> None:  # noqa: A002
        """As `Memories.update`."""
        space = await self.store.open_space()
        await self.store.perform(writing.update(space, id, changes, version=version), self.scope)

    async def invalidate(self, id: str, *, superseded_by: str | None = None) -> None:  # noqa: A002
        """As `Memories.invalidate`."""
        await self.store.perform(writing.invalidate(id, superseded_by=superseded_by), self.scope)

    async def history(self, id: str) -> Changes:  # noqa: A002
        """As `Memories.history`."""
        found: Changes = await self.store.perform(life.history(id), self.scope)
        return found

    async def restore(self, id: str) -> None:  # noqa: A002
        """As `Memories.restore`."""
        await self.store.perform(writing.restore(id), self.scope)

    async def forget(self, id: str) -> None:  # noqa: A002
        """As `Memories.forget`."""
        await self.store.perform(writing.forget_one(id), self.scope)

    async def forget_many(self, ids: Iterable[str]) -> Ids:
        """As `Memories.forget_many`."""
        gone: Ids = await self.store.perform(writing.forget(ids), self.scope)
        return gone

    async def feedback(self, id: str, *, useful: bool, recall_id: str | None = None) -> Reinforcement:  # noqa: A002
        """As `Memories.feedback`."""
        stands: Reinforcement = await self.store.perform(
            feedback.feedback(id, useful=useful, recall_id=recall_id), self.scope
        )
        return stands

    async def misled(self, *, limit: int = 50) -> Misleaders:
        """As `Memories.misled`."""
        found: Misleaders = await self.store.perform(feedback.misled(limit), self.scope)
        return found
