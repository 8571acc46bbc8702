"""`LoreMemoryBlock`: a briefing from memory in LlamaIndex's agents and chat engines."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.memory import BaseMemoryBlock
from llama_index.core.utils import get_tokenizer
from llama_index.core.vector_stores.types import MetadataFilters

from lore_retriever.bridge import View, acall, checked_view
from lore_retriever.context import CountTokens, counter_of
from lore_retriever.filters.tree import Filter
from lore_retriever.llamaindex.querying import node_filter
from lore_retriever.types import Briefing, NewMemory, Scope

__all__ = ["LoreMemoryBlock", "conversation_as_episode"]

WriteBack: TypeAlias = Callable[[list[ChatMessage]], Iterable[NewMemory]]
_Key: TypeAlias = tuple[Scope, str | None, str | None, int]

_CACHED = 64
"""Briefings kept: a few for each of some dozen sessions."""


def conversation_as_episode(messages: list[ChatMessage]) -> list[NewMemory]:
    """What was said as one memory of kind `episode`, one line a message; none if nothing was. For `write_back`."""
    said = [
        f"{message.role.value}: {text}"
        for message in messages
        if message.role in (MessageRole.USER, MessageRole.ASSISTANT) and (text := (message.content or "").strip())
    ]
    session = next((name for message in messages if (name := message.additional_kwargs.get("session_id"))), None)
    return [NewMemory(content="\n".join(said), kind="episode", session=session)] if said else []


class LoreMemoryBlock(BaseMemoryBlock[str]):
    """Puts a briefing from memory before the model, built for what the user said last.

    For `Memory.from_defaults(memory_blocks=[LoreMemoryBlock(memories=ana)])`. An agent asks a block several times in
    one run: the briefing is built once per session and question, and kept for `cache_s` seconds. Where the whole
    memory outgrows its limit, the briefing is built anew for what is left, most important first.

    Args:
        memories: `store.as_user(org=…, user=…)` of a `MemoryStore` or an `AsyncMemoryStore`.
        max_tokens: Budget of the briefing.
        count_tokens: How the model counts; LlamaIndex's own tokenizer (`Settings.tokenizer`) if None.
        filters: Conditions on memories; they hold for every section.
        write_back: Turns messages that leave the short-term memory into memories, `conversation_as_episode` for one;
            None writes nothing.
        cache_s: Seconds for which a briefing is used again.
        name: Name of the tag around the briefing in the prompt.
        priority: 0 never shortens the briefing; 1 shortens it when the conversation outgrows the memory's limit.

    Raises:
        InvalidInput: If an argument cannot be used.
    """

    name: str = "lore_memory"
    description: str | None = "Long-term memory: quoted records that may bear on the conversation."
    priority: int = 1
    accept_short_term_memory: bool = False
    memories: Any = Field(exclude=True, repr=False)
    max_tokens: int = Field(default=2000, ge=0)
    count_tokens: Any = Field(default=None, exclude=True, repr=False)
    filters: MetadataFilters | None = None
    write_back: WriteBack | None = Field(default=None, exclude=True, repr=False)
    cache_s: float = Field(default=60.0, ge=0)

    _filter: Filter | None = PrivateAttr(default=None)
    _cache: OrderedDict[_Key, tuple[float, str]] = PrivateAttr(default_factory=OrderedDict)

    def __init__(self, memories: View, **settings: Any) -> None:
        if settings.get("write_back") is not None:
            settings.setdefault("accept_short_term_memory", True)
        super().__init__(**{"memories": checked_view(memories), **settings})
        self._filter = node_filter(self.filters)

    async def _aget(self, messages: list[ChatMessage] | None = None, **block_kwargs: Any) -> str:
        """The briefing for the latest words of the user; without any, that of a session's start."""
        session = block_kwargs.get("session_id")
        return await self._briefing(self.memories.scope, session, _latest_question(messages or []), self.max_tokens)

    async def _aput(self, messages: list[ChatMessage]) -> None:
        """Write memories of what leaves the short-term memory, if `write_back` makes any."""
        made = [] if self.write_back is None else list(self.write_back(messages))
        if made:
            await acall(self.memories, lambda view: view.remember_many(made))
            self._cache.clear()

    async def atruncate(self, content: str, tokens_to_truncate: int) -> str | None:
        """The briefing of a smaller budget, or None where nothing of it would fit."""
        key = next((key for key, (_, text) in reversed([*self._cache.items()]) if text == content), None)
        budget = counter_of(self._counting()).count(content) - tokens_to_truncate if content else 0
        if key is None or budget <= 0:
            return None
        scope, session, question, _ = key
        return await self._briefing(scope, session, question, budget) or None

    def _counting(self) -> CountTokens:
        return get_tokenizer() if self.count_tokens is None else self.count_tokens

    async def _briefing(self, scope: Scope, session: str | None, question: str | None, budget: int) -> str:
        """The briefing's text, from the cache where it is young enough.

        The scope is part of the key: a view of `as_caller` serves several users.
        """
        key = (scope, session, question, budget)
        made = self._cache.get(key)
        if made is not None and time.monotonic() - made[0] < self.cache_s:
            return made[1]
        wanted = {"max_tokens": budget, "count_tokens": self._counting(), "filter": self._filter}
        briefing: Briefing = await acall(self.memories, lambda view: view.build_context(question, **wanted))
        self._cache[key] = (time.monotonic(), briefing.text)
        self._cache.move_to_end(key)
        while len(self._cache) > _CACHED:
            self._cache.popitem(last=False)
        return briefing.text


def _latest_question(messages: list[ChatMessage]) -> str | None:
    """What the user said last, if that is text."""
    said = (message.content or "" for message in reversed(messages) if message.role == MessageRole.USER)
    return next((text for text in said if text.strip()), None)
