"""An agent that is briefed from memory, looks things up, and remembers for the next conversation.

Needs: pip install "lore-retriever[quickstart,llamaindex]"
"""

import asyncio
from tempfile import TemporaryDirectory
from typing import Any

from llama_index.core.agent.workflow import FunctionAgent, ToolCallResult
from llama_index.core.base.llms.types import ToolCallBlock
from llama_index.core.llms import ChatMessage
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.memory import Memory

from lore_retriever import AsyncMemoryStore
from lore_retriever.llamaindex import LoreMemoryBlock, create_memory_tools

# A scripted model, so that this runs anywhere. A real one: llm = Anthropic(model="claude-sonnet-4-5")
SCRIPT = iter(
    [
        ("recall", {"query": ["gateway restart schedule", "nightly maintenance"]}),
        ("remember", {"content": "Ana prefers the gateway restart at 04:00 UTC.", "kind": "preference"}),
        "It restarts at 02:00 UTC; I noted that you would rather have it at 04:00.",
        "At 04:00 UTC, as you asked last time.",
    ]
)


def next_line(messages: Any, **_: Any) -> ChatMessage:
    step = next(SCRIPT)
    if isinstance(step, str):
        return ChatMessage(step, role="assistant")
    name, arguments = step
    return ChatMessage(role="assistant", blocks=[ToolCallBlock(tool_name=name, tool_kwargs=arguments)])


async def main(folder: str) -> None:
    async with AsyncMemoryStore.embedded(folder) as store:
        ana = store.as_user(org="acme", user="ana")  # from your own login; a model cannot choose it
        await ana.remember("The payment gateway restarts every night at 02:00 UTC.", kind="runbook")

        agent = FunctionAgent(
            system_prompt="You are the on-call assistant.",
            llm=MockFunctionCallingLLM(response_generator=next_line),
            tools=create_memory_tools(ana, written_as={"agent": "on-call"}),
        )
        briefing = LoreMemoryBlock(memories=ana, max_tokens=1000)

        for question in ("When does the gateway restart? I would rather have it at four.", "When should it restart?"):
            # Another conversation each: nothing is left of the first one but what was remembered.
            memory = Memory.from_defaults(memory_blocks=[briefing])
            run = agent.run(question, memory=memory)
            async for event in run.stream_events():
                if isinstance(event, ToolCallResult):
                    print(f"{event.tool_name}: {event.tool_output.content.splitlines()[0].partition(' as ')[0]}")
            print(await run)
        print([memory.content for memory in await ana.list(kind="preference")])


with TemporaryDirectory() as folder:
    asyncio.run(main(f"{folder}/postgres"))

# recall: 1 memory for: gateway restart schedule | nightly maintenance
# remember: Saved
# It restarts at 02:00 UTC; I noted that you would rather have it at 04:00.
# At 04:00 UTC, as you asked last time.
# ['Ana prefers the gateway restart at 04:00 UTC.']
