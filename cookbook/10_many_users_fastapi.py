"""One agent object behind FastAPI, for many users. You learn: per_user with the run's context, that the user comes from your
sign-in and never from what a client or a model writes, and that a thread belongs to its user.

Runs offline with a scripted model; LOREBANK_MODEL=provider:model takes a real one. Needs fastapi.
"""

import asyncio
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from fastapi import Body, Depends, FastAPI, Header, HTTPException
from fastapi.responses import StreamingResponse
from httpx import ASGITransport, AsyncClient
from langchain.agents import create_agent
from langchain.chat_models import init_chat_model
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.memory import InMemorySaver

from langchain_lorebank import MemoryMiddleware
from langchain_lorebank.testing import StrictChatModel, shown_memories
from lorebank import Bank, open_bank, per_user
from lorebank.seams import Event, Retained

TOKENS = {"Bearer a1": "ana", "Bearer b2": "ben"}  # your own sign-in goes here


@dataclass
class User:
    user_id: str


def run_of(thread: str, text: Annotated[str, Body()], authorization: Annotated[str, Header()] = "") -> dict[str, Any]:
    """What the agent is called with. Two users may both have a thread 1: neither gets the other's."""
    if (user := TOKENS.get(authorization)) is None:
        raise HTTPException(401, "sign in first")
    place = {"configurable": {"thread_id": f"{user}/{thread}"}}
    return {"input": {"messages": [("user", text)]}, "config": place, "context": User(user)}


def app_of(bank: Bank, model: Any) -> FastAPI:
    memory, app, asked = MemoryMiddleware(per_user(bank)), FastAPI(), Depends(run_of)
    agent: Any = create_agent(model, [], middleware=[memory], checkpointer=InMemorySaver(), context_schema=User)

    @app.post("/threads/{thread}")
    async def say(run: dict[str, Any] = asked) -> str:
        return str((await agent.ainvoke(**run))["messages"][-1].text)

    @app.post("/threads/{thread}/stream")
    async def stream(run: dict[str, Any] = asked) -> StreamingResponse:
        return StreamingResponse(chunk.text async for chunk, _ in agent.astream(**run, stream_mode="messages"))

    return app


def from_memory(messages: list[BaseMessage]) -> str:
    """What the scripted model makes of the memories that it is shown."""
    known = [memory for memory in shown_memories(messages) if "code is" in memory]
    return f"You told me: {' '.join(known)}" if known else "I will remember that."


async def main(app: FastAPI) -> None:
    """Three requests at once, three times over: Ana's, Ben's, and one that is not signed in."""
    texts = {"Bearer a1": "My door code is 4711.", "Bearer b2": "My door code is 8822.", "": "My door code is 9999."}
    async with AsyncClient(transport=ASGITransport(app), base_url="http://app") as client:
        for path in ("1", "2", "2/stream"):
            asking = [client.post(f"/threads/{path}", json=said, headers={"Authorization": who}) for who, said in texts.items()]
            print(f"{path}:", *(f"{reply.status_code} {reply.text}" for reply in await asyncio.gather(*asking)), sep="\n  ")
            texts = dict.fromkeys(texts, "Which door code is mine?")


events: list[Event] = []
with tempfile.TemporaryDirectory() as folder, open_bank(f"sqlite:///{Path(folder) / 'm.db'}", on_event=events.append) as bank:
    name = os.environ.get("LOREBANK_MODEL")
    model = init_chat_model(name) if name else StrictChatModel(script=[from_memory], repeat=True)
    asyncio.run(main(app_of(bank, model)))
    print("banks that were written to:", sorted({event.bank for event in events if isinstance(event, Retained)}))
