"""What an agent of LlamaIndex uses: the memory block and the tools."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ToolCallResult
from llama_index.core.base.llms.types import TextBlock, ToolCallBlock
from llama_index.core.llms import ChatMessage, MessageRole
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.memory import BaseMemoryBlock, StaticMemoryBlock
from llama_index.core.tools import FunctionTool
from llama_index.core.utils import get_tokenizer
from llama_index.core.vector_stores.types import MetadataFilter, MetadataFilters

from llamaindex_sides import NATURAL, Side, conversation, lent_loop, open_side
from lore_retriever import AsyncMemoryStore, InvalidInput, Memories, MemoryStore, Recall, Scope
from lore_retriever.llamaindex import (
    LoreMemoryBlock,
    conversation_as_episode,
    create_memory_tools,
    create_recall_tool,
)


@pytest.fixture(autouse=True)
def _loop() -> Iterator[None]:
    with lent_loop():
        yield


@pytest.fixture(params=NATURAL)
def side(request: pytest.FixtureRequest, app_database: str) -> Iterator[Side]:
    with open_side(request.param, app_database) as opened:
        yield opened


def says(text: str, role: MessageRole = MessageRole.USER) -> ChatMessage:
    return ChatMessage(role=role, content=text)


def tokens(text: str) -> int:
    return len(get_tokenizer()(text))


# --- the memory block


def test_the_block_is_what_llama_index_calls_one() -> None:
    assert BaseMemoryBlock.__name__ in [base.__name__ for base in LoreMemoryBlock.__mro__]


def test_the_briefing_is_that_of_build_context(side: Side) -> None:
    side.view("remember", "Deploys stop on ERR-4471.", pinned=True)
    side.view("remember", "The gateway restarts at two.")
    messages = [says("first"), says("gateway restarts"), says("an answer", MessageRole.ASSISTANT), says(" ")]
    block = LoreMemoryBlock(memories=side.ana, max_tokens=300)
    text = side.run(block.aget(messages, session_id="s"))
    expected = side.view("build_context", "gateway restarts", max_tokens=300, count_tokens=get_tokenizer())
    assert text == expected.text
    assert "ERR-4471" in text
    without = side.run(LoreMemoryBlock(memories=side.ana, max_tokens=300).aget([]))
    assert without == side.view("build_context", None, max_tokens=300, count_tokens=get_tokenizer()).text


def test_a_block_takes_the_caller_s_counter_and_filters(ana: Memories) -> None:
    ana.remember("The gateway restarts at two.", metadata={"team": "infra"})
    ana.remember("The gateway bill is due.", metadata={"team": "money"})
    filters = MetadataFilters(filters=[MetadataFilter(key="team", value="infra")])
    block = LoreMemoryBlock(memories=ana, max_tokens=400, count_tokens=len, filters=filters)
    text = asyncio.run(block.aget([says("gateway")]))
    assert "restarts at two" in text
    assert "bill" not in text
    assert len(text) <= 400


class Counted:
    """Counts the briefings that a view builds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.queries: list[Any] = []
        plain = Memories.build_context

        def noting(view: Memories, query: Any = None, **options: Any) -> Any:
            self.queries.append(query)
            return plain(view, query, **options)

        monkeypatch.setattr(Memories, "build_context", noting)


def test_a_briefing_is_built_once_per_session_and_question(ana: Memories, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch)
    ana.remember("The gateway restarts at two.")
    block = LoreMemoryBlock(memories=ana)

    async def ask() -> None:
        for session, text in [("a", "one"), ("a", "one"), ("b", "one"), ("a", "two"), ("a", "one")]:
            await block.aget([says(text)], session_id=session)

    asyncio.run(ask())
    assert counted.queries == ["one", "one", "two"]


def test_a_briefing_is_built_anew_when_it_is_old(ana: Memories, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch)
    block = LoreMemoryBlock(memories=ana, cache_s=0)
    for _ in range(2):
        asyncio.run(block.aget([says("one")]))
    assert counted.queries == ["one", "one"]


def test_callers_of_one_block_never_see_each_other_s_briefing(store: MemoryStore) -> None:
    caller: ContextVar[str] = ContextVar("caller")
    for user in ("ana", "ben"):
        store.as_user("acme", user).remember(f"The secret of {user}.")
    block = LoreMemoryBlock(memories=store.as_caller(lambda: Scope(org="acme", user=caller.get())))

    async def brief(user: str) -> str:
        caller.set(user)
        return await block.aget([says("secret")], session_id="same")

    async def both() -> list[str]:
        return await asyncio.gather(*(brief(user) for user in ("ana", "ben") * 3))

    texts = asyncio.run(both())
    assert all("secret of ana" in text and "ben" not in text for text in texts[::2])
    assert all("secret of ben" in text and "secret of ana" not in text for text in texts[1::2])


def test_a_block_without_memories_adds_nothing(ana: Memories, tmp_path: Path) -> None:
    memory = conversation(tmp_path, memory_blocks=[LoreMemoryBlock(memories=ana)])
    memory.put(says("hello"))
    assert [message.role for message in memory.get()] == [MessageRole.USER]


def test_a_conversation_that_outgrows_its_limit_shortens_the_briefing(side: Side, tmp_path: Path) -> None:
    for n in range(12):
        side.view(
            "remember", f"The gateway restarts at {n} in the morning, after the nightly backup has run.", pinned=n == 7
        )
    block = LoreMemoryBlock(memories=side.ana, max_tokens=600)
    memory = conversation(tmp_path, memory_blocks=[block], token_limit=10_000)

    async def texts() -> tuple[str, str]:
        await memory.aput(says("When does the gateway restart?"))
        whole = (await memory.aget())[0].content or ""
        memory.token_limit = 200
        return whole, (await memory.aget())[0].content or ""

    whole, short = side.run(texts())
    assert "at 7 in the morning" in whole
    assert "at 7 in the morning" in short
    assert tokens(short) < tokens(whole)
    briefing = side.view(
        "build_context", "When does the gateway restart?", max_tokens=600, count_tokens=get_tokenizer()
    )
    excess = briefing.used_tokens + tokens("When does the gateway restart?") - 200
    smaller = side.run(block.atruncate(briefing.text, excess))
    assert tokens(smaller or "") <= briefing.used_tokens - excess
    assert side.run(block.atruncate(briefing.text, 100_000)) is None
    assert side.run(block.atruncate("a text that no briefing had", 1)) is None


def test_a_block_of_priority_0_is_never_shortened(ana: Memories, tmp_path: Path) -> None:
    ana.remember("The gateway restarts at two.", pinned=True)
    memory = conversation(tmp_path, memory_blocks=[LoreMemoryBlock(memories=ana, priority=0)], token_limit=20)
    memory.put(says("gateway"))
    assert "restarts at two" in (memory.get()[0].content or "")


def test_the_block_stands_beside_others_and_is_read_from_a_new_loop(ana: Memories, tmp_path: Path) -> None:
    ana.remember("The gateway restarts at two.")
    blocks = [StaticMemoryBlock(name="rules", static_content="Be brief."), LoreMemoryBlock(memories=ana)]
    memory = conversation(tmp_path, memory_blocks=blocks)

    async def inside() -> str:
        # Synchronous calls inside a running loop make a thread with a loop of its own.
        memory.put(says("gateway"))
        return memory.get()[0].content or ""

    for text in (asyncio.run(inside()), memory.get()[0].content or ""):
        assert "Be brief." in text
        assert "<lore_memory>" in text
        assert "restarts at two" in text


def test_nothing_is_written_unless_asked_for(ana: Memories, tmp_path: Path) -> None:
    memory = conversation(tmp_path, memory_blocks=[LoreMemoryBlock(memories=ana)], token_limit=60, token_flush_size=10)
    for n in range(20):
        memory.put(says(f"message number {n} of a long conversation"))
    assert ana.list() == []


def test_what_leaves_the_conversation_can_be_written_back(side: Side, tmp_path: Path) -> None:
    block = LoreMemoryBlock(memories=side.ana, write_back=conversation_as_episode)
    assert block.accept_short_term_memory
    memory = conversation(tmp_path, memory_blocks=[block], token_limit=60, token_flush_size=10, session_id="monday")

    async def talk() -> None:
        for n in range(10):
            await memory.aput(says(f"question {n} about herons by the weir"))
            await memory.aput(says(f"answer {n} about herons", MessageRole.ASSISTANT))

    side.run(talk())
    written = side.view("list")
    assert written
    assert {(each.kind, each.visibility) for each in written} == {("episode", "private")}
    assert any(each.content.startswith("user: question 0 about herons by the weir") for each in written)
    assert [hit.id for hit in side.view("recall", "question 0", filter={"lore_session": "monday"}).hits]


def test_an_episode_is_what_was_said() -> None:
    messages = [
        says("When?"),
        says("a tool's answer", MessageRole.TOOL),
        says("At two.", MessageRole.ASSISTANT),
        says(" "),
    ]
    [episode] = conversation_as_episode(messages)
    assert (episode.content, episode.kind) == ("user: When?\nassistant: At two.", "episode")
    assert conversation_as_episode([says("a tool's answer", MessageRole.TOOL)]) == []


def test_a_block_shows_no_connection_and_wants_a_view(ana: Memories) -> None:
    block = LoreMemoryBlock(memories=ana)
    assert "memories" not in block.model_dump()
    assert "Memories" not in repr(block)
    with pytest.raises(InvalidInput, match="as_user"):
        LoreMemoryBlock(memories="acme")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="max_tokens"):
        LoreMemoryBlock(memories=ana, max_tokens=-1)


# --- the tools


def test_recall_answers_with_text_for_the_model_and_the_record_for_the_program(side: Side) -> None:
    side.view("remember", "The gateway restarts at two.", id="g")
    side.view("remember", "Herons nest by the weir. " + "Filler without meaning. " * 80, id="long")
    tool = create_recall_tool(side.ana, similarity_top_k=2)
    assert isinstance(tool, FunctionTool)
    call = {"query": ["gateway restarts", "herons weir"]}
    output = side.run(tool.acall(**call)) if side.awaited else tool.call(**call)
    assert isinstance(output.raw_output, Recall)
    assert {hit.id for hit in output.raw_output.hits} == {"g", "long"}
    assert '"g"' in output.content
    assert "excerpt" in output.content
    assert "get_memory" in output.content
    assert output.tool_name == "recall"


def test_what_the_model_is_taught(ana: Memories) -> None:
    recall, get, remember, feedback = create_memory_tools(ana)
    assert [tool.metadata.name for tool in (recall, get, remember, feedback)] == [
        "recall",
        "get_memory",
        "remember",
        "feedback",
    ]
    assert "short noun phrases" in recall.metadata.description
    assert set(recall.metadata.get_parameters_dict()["properties"]) == {"query", "limit"}
    assert not {"org", "user", "filter"} & set(recall.metadata.get_parameters_dict()["properties"])
    assert [tool.metadata.name for tool in create_memory_tools(ana, remember=False, feedback=False)] == [
        "recall",
        "get_memory",
    ]


def test_the_tools_work_together(side: Side) -> None:
    recall, get, remember, feedback = create_memory_tools(side.ana, written_as={"agent": "helper", "session": "s"})

    def use(tool: FunctionTool, **given: Any) -> Any:
        return side.run(tool.acall(**given)) if side.awaited else tool(**given)

    saved = use(remember, content="The gateway restarts at two.", kind="decision")
    [id_] = saved.raw_output
    assert id_ in saved.content
    memory = side.view("get", id_)
    assert (memory.kind, memory.agent, memory.session) == ("decision", "helper", "s")
    found = use(recall, query="gateway", limit=1).raw_output
    assert [hit.id for hit in found.hits] == [id_]
    read = use(get, id=id_)
    assert "restarts at two" in read.content
    assert read.raw_output == memory
    assert use(feedback, id=id_, useful=True, recall_id=found.id).is_error is False
    assert side.view("recall", "gateway").hits[0].reinforcement == pytest.approx(1.104, abs=1e-3)


@pytest.mark.parametrize(
    ("tool", "given", "message"),
    [
        (1, {"id": "unknown"}, "unknown"),
        (0, {"query": "x", "limit": 0}, "limit"),
        (0, {"question": "x"}, "query"),
        (0, {"query": ["x"] * 20}, "20 queries"),
        (2, {"content": " "}, "content"),
        (2, {"content": "x", "kind": "secret"}, "kind"),
        (3, {"id": "unknown", "useful": True}, "unknown"),
    ],
)
def test_a_mistake_of_the_model_is_an_answer_it_can_read(
    ana: Memories, tool: int, given: dict[str, Any], message: str
) -> None:
    outputs = [create_memory_tools(ana)[tool](**given), asyncio.run(create_memory_tools(ana)[tool].acall(**given))]
    for output in outputs:
        assert output.is_error
        assert message in output.content


def test_tools_find_only_what_their_filters_let_through(ana: Memories) -> None:
    ana.remember("The gateway restarts at two.", id="in", metadata={"team": "infra"})
    ana.remember("The gateway bill is due.", id="out", metadata={"team": "money"})
    filters = MetadataFilters(filters=[MetadataFilter(key="team", value="infra")])
    for tool in (create_recall_tool(ana, filters=filters), create_memory_tools(ana, filters=filters)[0]):
        assert [hit.id for hit in tool("gateway").raw_output.hits] == ["in"]


def test_settings_of_tools_are_checked_when_they_are_made(ana: Memories) -> None:
    for wrong in ({"memories": "acme"}, {"similarity_top_k": 0}, {"written_as": {"visibility": "public"}}):
        with pytest.raises(InvalidInput):
            create_memory_tools(**{"memories": ana} | wrong)


# --- agents

# LlamaIndex's own workflow classes touch every attribute of a model, old names of pydantic among them.
framework_warnings = pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecationWarning")


class Script:
    """A model that calls tools and says lines as it was told, and keeps what it was shown."""

    def __init__(self, *steps: ToolCallBlock | str) -> None:
        self._steps = list(steps)
        self.shown: list[list[ChatMessage]] = []
        self.llm = MockFunctionCallingLLM(response_generator=self._next)

    def _next(self, messages: Sequence[ChatMessage], **_: Any) -> ChatMessage:
        self.shown.append([message.model_copy(deep=True) for message in messages])
        step = self._steps.pop(0)
        return ChatMessage(role="assistant", blocks=[TextBlock(text=step) if isinstance(step, str) else step])


def calls(name: str, **given: Any) -> ToolCallBlock:
    return ToolCallBlock(tool_name=name, tool_kwargs=given)


@framework_warnings
async def test_an_agent_is_briefed_looks_up_and_saves(
    store: MemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = Counted(monkeypatch)
    ana = store.as_user("acme", "ana")
    ana.remember("Deploys stop on ERR-4471.", pinned=True)
    ana.remember("The gateway restarts at two.", id="g")
    script = Script(
        calls("recall", query="gateway restart"), calls("remember", content="Ana asked about the gateway."), "At two."
    )
    agent = FunctionAgent(llm=script.llm, tools=create_memory_tools(ana), system_prompt="Be brief.")
    memory = conversation(tmp_path, memory_blocks=[LoreMemoryBlock(memories=ana)])
    handler = agent.run("When does the gateway restart?", memory=memory)
    results = [event async for event in handler.stream_events() if isinstance(event, ToolCallResult)]
    assert str(await handler) == "At two."
    assert ["g" in result.tool_output.content for result in results] == [True, False]
    assert not any(result.tool_output.is_error for result in results)
    for shown in script.shown:
        system = [message.content or "" for message in shown if message.role == MessageRole.SYSTEM]
        assert system[0].startswith("Be brief.")
        assert any("ERR-4471" in text for text in system)
    assert counted.queries == ["When does the gateway restart?"]
    assert "Ana asked about the gateway." in [each.content for each in ana.list()]


@framework_warnings
async def test_an_agent_works_over_an_asynchronous_view(async_store: AsyncMemoryStore, tmp_path: Path) -> None:
    ana = async_store.as_user("acme", "ana")
    await ana.remember("The gateway restarts at two.", id="g")
    script = Script(calls("recall", query="gateway restart"), calls("get_memory", id="nobody's"), "At two.")
    agent = FunctionAgent(name="helper", description="helps", llm=script.llm, tools=create_memory_tools(ana))
    workflow = AgentWorkflow(agents=[agent], root_agent="helper")
    memory = conversation(tmp_path, memory_blocks=[LoreMemoryBlock(memories=ana)])
    handler = workflow.run("When does the gateway restart?", memory=memory)
    results = [event async for event in handler.stream_events() if isinstance(event, ToolCallResult)]
    assert str(await handler) == "At two."
    assert [result.tool_output.is_error for result in results] == [False, True]
    assert "nobody's" in results[1].tool_output.content
