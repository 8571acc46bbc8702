"""`LoreMemoryMiddleware`: a LangChain agent that is briefed before it works and can look things up while it does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, NotRequired, TypeAlias

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.tools import BaseTool, StructuredTool

from lore_retriever.bridge import View, acall, call
from lore_retriever.context import CountTokens
from lore_retriever.errors import InvalidInput, ScopeMissing
from lore_retriever.langchain.tools import memory_tools
from lore_retriever.store import AsyncMemoryStore, MemoryStore
from lore_retriever.types import Briefing, Scope
from lore_retriever.views import AsyncMemories, Memories

try:
    from langchain.agents.middleware import AgentMiddleware, AgentState
    from langchain.agents.middleware.types import (
        ExtendedModelResponse,
        ModelRequest,
        ModelResponse,
        PrivateStateAttr,
    )
    from langchain.tools import ToolRuntime
    from langgraph.channels.untracked_value import UntrackedValue
    from langgraph.runtime import Runtime
    from langgraph.types import Command
except ImportError as error:
    raise ImportError('this needs langchain 1.x: pip install "lore-retriever[agents]".') from error

__all__ = ["LoreMemoryMiddleware", "LoreMemoryState", "scope_of_context"]

Memory: TypeAlias = Memories | AsyncMemories | MemoryStore | AsyncMemoryStore
Reply: TypeAlias = ModelResponse[Any] | AIMessage | ExtendedModelResponse[Any]


class LoreMemoryState(AgentState[Any]):
    """The agent's state with the run's briefing, which no checkpoint and no output contains."""

    lore_briefing: NotRequired[Annotated[str, UntrackedValue, PrivateStateAttr]]


def scope_of_context(context: Any) -> Scope | None:
    """The scope that a run's context names: a `Scope`, or an object or mapping with `org` and `user`; else None."""
    if isinstance(context, Scope):
        return context
    if isinstance(context, Mapping):
        org, user = context.get("org"), context.get("user")
    else:
        org, user = getattr(context, "org", None), getattr(context, "user", None)
    return Scope(org=org, user=user) if isinstance(org, str) and isinstance(user, str) else None


class LoreMemoryMiddleware(AgentMiddleware[LoreMemoryState, Any, Any]):
    """Briefs an agent from memory once per run, and gives it `recall` and `get_memory`.

    The briefing is built from the latest message of the user when the run starts, and is appended to the agent's
    own system prompt in every model call of the run; the prompt itself stays first, so that providers go on caching
    it. It is never part of the messages, the checkpoint or the output.

    With a store, whose memories are read is taken from the run's context, as in
    `agent.invoke(…, context=Scope(org="acme", user="ana"))`; without one the run fails before anything is read. With
    a view, it is the view's, unless the context names a scope. A model cannot choose it.

    Args:
        memories: A `MemoryStore` or `AsyncMemoryStore`, or a view of one (`store.as_user(…)`).
        max_tokens: Budget of the briefing; 0 for tools only.
        count_tokens: How the model counts: see `Memories.build_context`.
        remember: Whether the model also gets a tool that saves memories.
        feedback: Whether it also gets a tool that says what was useful.
        k: Results of one recall.
        filter: Conditions on the briefing and on recall, in the `$` language.
        written_as: Fields that every saved memory gets: see `create_memory_tools`.
        scope: Finds the scope in a run's context, where it is neither a `Scope` nor has `org` and `user`; None from
            it means that there is none.

    Raises:
        InvalidInput: If `memories` is neither store nor view.
    """

    state_schema = LoreMemoryState

    def __init__(
        self,
        memories: Memory,
        *,
        max_tokens: int = 2000,
        count_tokens: CountTokens | None = None,
        remember: bool = False,
        feedback: bool = False,
        k: int = 10,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 (the hosts' own name)
        written_as: Mapping[str, Any] | None = None,
        scope: Callable[[Any], Scope | None] = scope_of_context,
    ) -> None:
        super().__init__()
        self._store, self._bound = _store_and_view(memories)
        self._scope = scope
        self._max_tokens = max_tokens
        self._count_tokens = count_tokens
        self._filter = filter
        made = memory_tools(
            self._view_of_run, remember=remember, feedback=feedback, k=k, filter=filter, written_as=written_as
        )
        self.tools: list[BaseTool] = [_with_runtime(tool) for tool in made]

    def _view(self, context: Any) -> View:
        """The view for a run.

        Raises:
            ScopeMissing: If nothing says on whose behalf it runs.
        """
        scope = None if context is None else self._scope(context)
        if scope is not None:
            return self._store.as_user(scope.org, scope.user)
        if self._bound is not None:
            return self._bound
        raise ScopeMissing(
            f"the run's context is {type(context).__name__} and names no scope. Run the agent with"
            ' context=Scope(org="…", user="…"), or with any context that has org and user.'
        )

    def _view_of_run(self, runtime: Any) -> View:
        return self._view(getattr(runtime, "context", None))

    def _brief(self, messages: list[Any], context: Any) -> str:
        briefing: Briefing = call(self._view(context), self._building(messages))
        return briefing.text

    async def _abrief(self, messages: list[Any], context: Any) -> str:
        briefing: Briefing = await acall(self._view(context), self._building(messages))
        return briefing.text

    def _building(self, messages: list[Any]) -> Callable[[Any], Any]:
        asked = latest_question(messages)
        return lambda view: view.build_context(
            asked, max_tokens=self._max_tokens, count_tokens=self._count_tokens, filter=self._filter
        )

    def before_agent(self, state: LoreMemoryState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Build the run's briefing."""
        return {"lore_briefing": self._brief(state["messages"], runtime.context)}

    async def abefore_agent(self, state: LoreMemoryState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """As `before_agent`."""
        return {"lore_briefing": await self._abrief(state["messages"], runtime.context)}

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> Reply:
        """Append the briefing to the system prompt."""
        known = _briefing_of(request)
        if known is not None:
            return handler(_briefed(request, known))
        made = self._brief(request.messages, request.runtime.context)
        return _kept(handler(_briefed(request, made)), made)

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> Reply:
        """As `wrap_model_call`."""
        known = _briefing_of(request)
        if known is not None:
            return await handler(_briefed(request, known))
        made = await self._abrief(request.messages, request.runtime.context)
        return _kept(await handler(_briefed(request, made)), made)


def _store_and_view(memories: Memory) -> tuple[MemoryStore | AsyncMemoryStore, View | None]:
    if isinstance(memories, MemoryStore | AsyncMemoryStore):
        return memories, None
    if isinstance(memories, Memories | AsyncMemories):
        return memories.store, memories
    raise InvalidInput(
        f"memories is {type(memories).__name__}; give a MemoryStore or an AsyncMemoryStore, or store.as_user(org=…, user=…)."
    )


def latest_question(messages: list[BaseMessage]) -> str | None:
    """What the user said last, or None where that is no text."""
    texts = (message.text for message in reversed(messages) if isinstance(message, HumanMessage))
    latest = next(texts, "")
    return latest if latest.strip() else None


def _briefing_of(request: ModelRequest[Any]) -> str | None:
    """The run's briefing; None in a run that goes on after an interrupt, which starts in the middle."""
    state: Mapping[str, Any] = request.state
    return state.get("lore_briefing")


def _briefed(request: ModelRequest[Any], briefing: str) -> ModelRequest[Any]:
    if not briefing:
        return request
    base = request.system_message
    if base is None:
        return request.override(system_message=SystemMessage(content=briefing))
    own: list[Any] = [{"type": "text", "text": base.content}] if isinstance(base.content, str) else [*base.content]
    added = {"type": "text", "text": f"\n\n{briefing}"}
    return request.override(system_message=base.model_copy(update={"content": [*own, added]}))


def _kept(reply: ModelResponse[Any], briefing: str) -> ExtendedModelResponse[Any]:
    """The reply, with the briefing kept for the rest of the run."""
    return ExtendedModelResponse(model_response=reply, command=Command(update={"lore_briefing": briefing}))


def _with_runtime(tool: StructuredTool) -> BaseTool:
    """The tool with the run's context handed to it by the agent, out of the model's sight."""
    func, coroutine = tool.func, tool.coroutine
    assert func is not None
    assert coroutine is not None

    # LangChain knows a parameter to inject by its bare type; outside an agent there is nothing to inject.
    def run(runtime: ToolRuntime = None, **given: Any) -> Any:  # type: ignore[assignment]
        return func(runtime=runtime, **given)

    async def arun(runtime: ToolRuntime = None, **given: Any) -> Any:  # type: ignore[assignment]
        return await coroutine(runtime=runtime, **given)

    return StructuredTool.from_function(
        func=run,
        coroutine=arun,
        name=tool.name,
        description=tool.description,
        args_schema=tool.args_schema,
        infer_schema=False,
        response_format=tool.response_format,
        handle_tool_error=tool.handle_tool_error,
    )
