"""Memory tools for LlamaIndex agents: recall, get_memory, remember, feedback.

Each answers with a text for the model and, as `raw_output`, the record for the program. Whose memories they touch is
settled by the view they were made with, never by an argument that a model fills in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

from llama_index.core.bridge.pydantic import BaseModel, ConfigDict, Field, ValidationError
from llama_index.core.tools import FunctionTool, ToolOutput
from llama_index.core.vector_stores.types import MetadataFilters

from lore_retriever import tool_texts
from lore_retriever.bridge import View, acall, call, checked_view
from lore_retriever.errors import InvalidInput, NotFound
from lore_retriever.inputs import checked_limit, new_memory
from lore_retriever.llamaindex.querying import node_filter
from lore_retriever.types import Memory, Recall

__all__ = ["create_memory_tools", "create_recall_tool"]

Use: TypeAlias = Callable[..., Callable[[Any], Any]]

_MOST_HITS = 50


class _Input(BaseModel):
    model_config = ConfigDict(extra="forbid")


class RecallInput(_Input):
    """What a model gives to `recall`."""

    query: str | list[str] = Field(
        description="A short noun phrase, or two or three of them as a list: they are searched together."
    )
    limit: int | None = Field(default=None, ge=1, le=_MOST_HITS, description="How many memories to show at most.")


class GetInput(_Input):
    """What a model gives to `get_memory`."""

    id: str = Field(description="The memory's id, exactly as recall shows it.")
    start: int = Field(default=0, ge=0, description="Character to begin at, for reading on in a long memory.")


class RememberInput(_Input):
    """What a model gives to `remember`."""

    content: str = Field(description="The fact, in one self-contained statement.")
    kind: Literal[tool_texts.MEMORY_KINDS] = Field(  # type: ignore[valid-type]
        default="fact", description="What kind of fact it is; episodes and tasks fade soon, decisions hardly."
    )


class FeedbackInput(_Input):
    """What a model gives to `feedback`."""

    id: str = Field(description="The memory's id, exactly as recall shows it.")
    useful: bool = Field(description="True if it helped with the task, false if it misled.")
    recall_id: str | None = Field(default=None, description="The recall id that stood above the results.")


def _tool(
    view: View, name: str, description: str, schema: type[BaseModel], use: Use, answer: Callable[..., str]
) -> FunctionTool:
    """A tool that calls the view and words what comes back.

    Args:
        use: Takes the model's arguments, returns the call to make on the view.
        answer: Takes the result and the model's arguments, returns the text.
    """

    def checked(args: tuple[Any, ...], given: Mapping[str, Any]) -> dict[str, Any]:
        named = dict(zip(schema.model_fields, args, strict=False)) | dict(given)
        return schema.model_validate(named).model_dump()

    def output(text: str, given: Mapping[str, Any], result: Any, *, is_error: bool = False) -> ToolOutput:
        return ToolOutput(
            content=text,
            tool_name=name,
            raw_input={"args": (), "kwargs": dict(given)},
            raw_output=result,
            is_error=is_error,
        )

    # What a model can mend is for the model to read; everything else is for the program.
    def run(*args: Any, **given: Any) -> ToolOutput:
        try:
            fields = checked(args, given)
            result = call(view, use(**fields))
        except (InvalidInput, NotFound, ValidationError) as error:
            return output(_worded(error), given, None, is_error=True)
        return output(answer(result, **fields), fields, result)

    async def arun(*args: Any, **given: Any) -> ToolOutput:
        try:
            fields = checked(args, given)
            result = await acall(view, use(**fields))
        except (InvalidInput, NotFound, ValidationError) as error:
            return output(_worded(error), given, None, is_error=True)
        return output(answer(result, **fields), fields, result)

    return FunctionTool.from_defaults(
        fn=run,
        async_fn=arun,
        name=name,
        description=description,
        fn_schema=schema,
        callback=_as_is,
        async_callback=_aas_is,
    )


def _worded(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    return "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()) + "."


def _as_is(output: ToolOutput) -> ToolOutput:
    """LlamaIndex takes a tool's own ToolOutput from a callback only."""
    return output


async def _aas_is(output: ToolOutput) -> ToolOutput:
    return output


def create_recall_tool(
    memories: View,
    *,
    name: str = "recall",
    description: str | None = None,
    similarity_top_k: int = 10,
    filters: MetadataFilters | None = None,
    reader: str = "get_memory",
) -> FunctionTool:
    """A tool that searches the memories; its `raw_output` is the `Recall`.

    The text shows every result's id, what was cut and what was left out. Give `get_memory` beside it, so that a model
    can read on: `create_memory_tools` makes both.

    Args:
        memories: View of either store.
        name: The tool's name.
        description: What the model reads of it; teaches short, early, several queries if None.
        similarity_top_k: Results where the model asks for no number.
        filters: Conditions that always hold.
        reader: Name of the tool that reads whole memories.

    Raises:
        InvalidInput: If an argument cannot be used.
    """
    most, conditions = checked_limit(similarity_top_k), node_filter(filters)

    def use(query: str | list[str], limit: int | None) -> Callable[[Any], Any]:
        return lambda view: view.recall(query, limit=limit or most, filter=conditions)

    def answer(found: Recall, **_given: Any) -> str:
        return tool_texts.recall_text(found, reader=reader)

    return _tool(checked_view(memories), name, description or tool_texts.RECALL_DESCRIPTION, RecallInput, use, answer)


def create_memory_tools(
    memories: View,
    *,
    remember: bool = True,
    feedback: bool = True,
    similarity_top_k: int = 10,
    filters: MetadataFilters | None = None,
    written_as: Mapping[str, Any] | None = None,
) -> list[FunctionTool]:
    """`recall` and `get_memory`, and `remember` and `feedback` unless switched off.

    Args:
        memories: View of either store.
        remember: Whether the model may save memories.
        feedback: Whether it may say what was useful.
        similarity_top_k, filters: As for `create_recall_tool`.
        written_as: Fields of `NewMemory` that every saved memory gets, as in
            `{"agent": "support", "session": "42", "visibility": "shared"}`; private and unlabelled if None.

    Raises:
        InvalidInput: If an argument cannot be used.
    """
    view = checked_view(memories)
    fields = dict(written_as or {})
    new_memory(**{"content": "checked when made, not when used", **fields})
    tools = [create_recall_tool(view, similarity_top_k=similarity_top_k, filters=filters), _get_tool(view)]
    if remember:
        tools.append(_remember_tool(view, fields))
    if feedback:
        tools.append(_feedback_tool(view))
    return tools


def _get_tool(view: View) -> FunctionTool:
    def use(id: str, start: int) -> Callable[[Any], Any]:  # noqa: A002 (a memory's id)
        return lambda v: v.get(id)

    def answer(memory: Memory, start: int, **_given: Any) -> str:
        return tool_texts.memory_text(memory, start=start)

    return _tool(view, "get_memory", tool_texts.GET_DESCRIPTION, GetInput, use, answer)


def _remember_tool(view: View, fields: Mapping[str, Any]) -> FunctionTool:
    def use(content: str, kind: str) -> Callable[[Any], Any]:
        memory = new_memory(**{**fields, "content": content, "kind": kind})
        return lambda v: v.remember_many([memory])

    def answer(ids: list[str], **_given: Any) -> str:
        return tool_texts.remembered_text(ids)

    return _tool(view, "remember", tool_texts.REMEMBER_DESCRIPTION, RememberInput, use, answer)


def _feedback_tool(view: View) -> FunctionTool:
    def use(id: str, useful: bool, recall_id: str | None) -> Callable[[Any], Any]:  # noqa: A002
        return lambda v: v.feedback(id, useful=useful, recall_id=recall_id)

    def answer(_stands: Any, id: str, useful: bool, **_given: Any) -> str:  # noqa: A002
        return tool_texts.feedback_text(id, useful=useful)

    return _tool(view, "feedback", tool_texts.FEEDBACK_DESCRIPTION, FeedbackInput, use, answer)
