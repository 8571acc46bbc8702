"""Memory tools for LangChain agents: recall, get_memory, remember, feedback.

Each answers with a text for the model and an artifact for the program. Whose memories they touch is settled by the
view they were made with, never by an argument that a model fills in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from langchain_core.documents import Document
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from pydantic import BaseModel, Field

from lore_retriever import tool_texts
from lore_retriever.bridge import View, acall, call, checked_view
from lore_retriever.errors import InvalidInput, NotFound
from lore_retriever.inputs import checked_limit, new_memory
from lore_retriever.langchain.documents import annotated_documents, memory_document

__all__ = ["create_memory_tools", "create_recall_tool"]

Answer: TypeAlias = tuple[str, Any]
FindView: TypeAlias = Callable[[Any], View]

_MOST_HITS = 50


class RecallInput(BaseModel):
    """What a model gives to `recall`."""

    query: str | list[str] = Field(
        description="A short noun phrase, or two or three of them as a list: they are searched together."
    )
    limit: int | None = Field(default=None, ge=1, le=_MOST_HITS, description="How many memories to show at most.")


class GetInput(BaseModel):
    """What a model gives to `get_memory`."""

    id: str = Field(description="The memory's id, exactly as recall shows it.")
    start: int = Field(default=0, ge=0, description="Character to begin at, for reading on in a long memory.")


class RememberInput(BaseModel):
    """What a model gives to `remember`."""

    content: str = Field(description="The fact, in one self-contained statement.")
    kind: Literal[tool_texts.MEMORY_KINDS] = Field(  # type: ignore[valid-type]
        default="fact", description="What kind of fact it is; episodes and tasks fade soon, decisions hardly."
    )


class FeedbackInput(BaseModel):
    """What a model gives to `feedback`."""

    id: str = Field(description="The memory's id, exactly as recall shows it.")
    useful: bool = Field(description="True if it helped with the task, false if it misled.")
    recall_id: str | None = Field(default=None, description="The recall id that stood above the results.")


def _tool(
    name: str,
    description: str,
    schema: type[BaseModel],
    find: FindView,
    use: Callable[..., Callable[[Any], Any]],
    answer: Callable[..., Answer],
) -> StructuredTool:
    """A tool that calls a view and words what comes back.

    Args:
        find: The view for one call, from the runtime where an agent hands one over.
        use: Takes the model's arguments, returns the call to make on the view.
        answer: Takes the result and the model's arguments, returns text and artifact.
    """

    def run(*, runtime: Any = None, **given: Any) -> Answer:
        try:
            return answer(call(find(runtime), use(**given)), **given)
        except (InvalidInput, NotFound) as error:
            # What a model can mend is for the model to read; everything else is for the program.
            raise ToolException(str(error)) from error

    async def arun(*, runtime: Any = None, **given: Any) -> Answer:
        try:
            return answer(await acall(find(runtime), use(**given)), **given)
        except (InvalidInput, NotFound) as error:
            raise ToolException(str(error)) from error

    return StructuredTool.from_function(
        func=run,
        coroutine=arun,
        name=name,
        description=description,
        args_schema=schema,
        infer_schema=False,
        response_format="content_and_artifact",
        handle_tool_error=True,
    )


def create_recall_tool(
    memories: View,
    *,
    name: str = "recall",
    description: str | None = None,
    k: int = 10,
    filter: Mapping[str, Any] | None = None,  # noqa: A002 (the hosts' own name)
    kinds: Sequence[str] | None = None,
    reader: str = "get_memory",
) -> BaseTool:
    """A tool that searches the memories; its artifact is the list of annotated documents.

    The text shows every result's id, what was cut and what was left out. Give `get_memory` beside it, so that a model
    can read on: `create_memory_tools` makes both.

    Args:
        memories: View of either store.
        name: The tool's name.
        description: What the model reads of it; teaches short, early, several queries if None.
        k: Results where the model asks for no number.
        filter: Conditions that always hold, in the `$` language.
        kinds: Only memories of these kinds.
        reader: Name of the tool that reads whole memories.

    Raises:
        InvalidInput: If `memories` is no view or `k` no number of hits.
    """
    view = checked_view(memories)
    return _recall_tool(lambda _: view, name, description, k, filter, kinds, reader)


def _recall_tool(
    find: FindView,
    name: str,
    description: str | None,
    k: int,
    filter: Mapping[str, Any] | None,  # noqa: A002
    kinds: Sequence[str] | None,
    reader: str,
) -> StructuredTool:
    most = checked_limit(k)

    def use(query: str | list[str], limit: int | None = None) -> Callable[[Any], Any]:
        return lambda view: view.recall(query, limit=limit or most, filter=filter, kinds=kinds)

    def answer(found: Any, **_given: Any) -> Answer:
        return tool_texts.recall_text(found, reader=reader), annotated_documents(found)

    return _tool(name, description or tool_texts.RECALL_DESCRIPTION, RecallInput, find, use, answer)


def _get_tool(find: FindView) -> StructuredTool:
    def answer(memory: Any, id: str, start: int = 0) -> Answer:  # noqa: A002
        document: Document = memory_document(memory)
        return tool_texts.memory_text(memory, start=start), document

    return _tool(
        "get_memory",
        tool_texts.GET_DESCRIPTION,
        GetInput,
        find,
        lambda id, start=0: lambda v: v.get(id),  # noqa: A006
        answer,
    )


def _remember_tool(find: FindView, fields: Mapping[str, Any]) -> StructuredTool:
    def use(content: str, kind: str = "fact") -> Callable[[Any], Any]:
        memory = new_memory(**{**fields, "content": content, "kind": kind})
        return lambda v: v.remember_many([memory])

    def answer(ids: Any, **_given: Any) -> Answer:
        return tool_texts.remembered_text(ids), list(ids)

    return _tool("remember", tool_texts.REMEMBER_DESCRIPTION, RememberInput, find, use, answer)


def _feedback_tool(find: FindView) -> StructuredTool:
    def use(id: str, useful: bool, recall_id: str | None = None) -> Callable[[Any], Any]:  # noqa: A002
        return lambda v: v.feedback(id, useful=useful, recall_id=recall_id)

    def answer(_done: Any, id: str, useful: bool, recall_id: str | None = None) -> Answer:  # noqa: A002
        return tool_texts.feedback_text(id, useful=useful), {"id": id, "useful": useful, "recall_id": recall_id}

    return _tool("feedback", tool_texts.FEEDBACK_DESCRIPTION, FeedbackInput, find, use, answer)


def create_memory_tools(
    memories: View,
    *,
    remember: bool = True,
    feedback: bool = True,
    k: int = 10,
    filter: Mapping[str, Any] | None = None,  # noqa: A002 (the hosts' own name)
    kinds: Sequence[str] | None = None,
    written_as: Mapping[str, Any] | None = None,
) -> list[BaseTool]:
    """`recall` and `get_memory`, and `remember` and `feedback` unless switched off.

    Args:
        memories: View of either store.
        remember: Whether the model may save memories.
        feedback: Whether it may say what was useful.
        k, filter, kinds: As for `create_recall_tool`.
        written_as: Fields of `NewMemory` that every saved memory gets, as in
            `{"agent": "support", "session": "42", "visibility": "shared"}`; private and unlabelled if None.

    Raises:
        InvalidInput: If `memories` is no view, or a field cannot be stored.
    """
    view = checked_view(memories)
    made = memory_tools(
        lambda _: view, remember=remember, feedback=feedback, k=k, filter=filter, kinds=kinds, written_as=written_as
    )
    return [*made]


def memory_tools(
    find: FindView,
    *,
    remember: bool,
    feedback: bool,
    k: int,
    filter: Mapping[str, Any] | None,  # noqa: A002
    kinds: Sequence[str] | None = None,
    written_as: Mapping[str, Any] | None = None,
) -> list[StructuredTool]:
    """The tools of `create_memory_tools` over a view that is found anew for each call.

    Args:
        find: Takes the runtime that an agent hands over (None without one), returns the view.
    """
    fields = dict(written_as or {})
    new_memory(**{"content": "checked when made, not when used", **fields})
    tools = [_recall_tool(find, "recall", None, k, filter, kinds, "get_memory"), _get_tool(find)]
    if remember:
        tools.append(_remember_tool(find, fields))
    if feedback:
        tools.append(_feedback_tool(find))
    return tools
