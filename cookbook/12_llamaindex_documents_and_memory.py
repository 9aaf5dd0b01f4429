"""Documents and memory in one answer. You learn: with_memory(query_engine, bank), that no document gives way to a memory, how to
tell the sources of an answer apart, what is kept of a query, and that users share the documents and nothing else.

Runs offline with a scripted LLM; LOREBANK_MODEL=name takes OpenAI's (pip install llama-index-llms-openai). Recipe 03 asks memory
alone.
"""

import os
import tempfile
from pathlib import Path
from typing import Any

from llama_index.core import Document, SummaryIndex
from llama_index.core.instrumentation.dispatcher import instrument_tags

from llamaindex_lorebank import is_memory, with_memory
from llamaindex_lorebank.testing import ScriptedLLM
from lorebank import Bank, open_bank, per_user

TIMETABLE = ["The night train to Porto leaves at nine.", "Seats 11 and 14 are aisle seats.", "Seats 12 and 13 are window seats."]


def answer(prompt: str) -> str:
    """What the scripted LLM makes of its context: the seats, if it knows which."""
    context = [line for line in prompt.split("---------------------")[1].splitlines() if line]
    wanted = next((word for word in ("aisle", "window") if any(line.startswith(f"I take {word}") for line in context)), None)
    seats = next(
        (line.split(" are")[0] for line in context if wanted and line.endswith(f"{wanted} seats.") and " are " in line), None
    )
    return f"{seats}: you said that you take {wanted} seats." if seats else context[0]


def llm() -> Any:
    if name := os.environ.get("LOREBANK_MODEL"):
        from llama_index.llms.openai import OpenAI

        return OpenAI(model=name)
    return ScriptedLLM(answer=answer)


def ask(engine: Any, user: str, session: str, question: str) -> None:
    with instrument_tags({"user_id": user, "session_id": session}):
        response = engine.query(question)
    print(f"{user}, {session}: {question}\n  answer: {response}")
    for source in response.source_nodes:
        print("  memory:  " if is_memory(source) else "  document:", source.node.text)


def main(bank: Bank) -> None:
    index = SummaryIndex.from_documents([Document(text=text, id_=f"line {n}") for n, text in enumerate(TIMETABLE, 1)])
    engine = with_memory(index.as_query_engine(llm=llm()), per_user(bank), similarity_top_k=2, mental_models=False)
    ask(engine, "ana", "monday", "I take aisle seats. When does the train leave?")
    ask(engine, "ben", "monday", "I take window seats. When does the train leave?")
    ask(engine, "ana", "tuesday", "Which seats shall I take?")
    ask(engine, "ben", "tuesday", "Which seats shall I take?")
    print("ana's bank:", *(memory.text for memory in reversed(bank.named("ana").list())), sep="\n  ")


with tempfile.TemporaryDirectory() as folder, open_bank(f"sqlite:///{Path(folder) / 'memory.db'}") as bank:
    main(bank)
