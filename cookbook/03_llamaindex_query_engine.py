"""A LlamaIndex query engine over memory, for many users. You learn: BankRetriever, per_user, instrument_tags.

Runs offline with a scripted LLM; LOREBANK_MODEL=name takes OpenAI's (pip install llama-index-llms-openai).
"""

import os
from typing import Any

from llama_index.core.instrumentation.dispatcher import instrument_tags
from llama_index.core.query_engine import RetrieverQueryEngine

from llamaindex_lorebank import BankRetriever
from llamaindex_lorebank.testing import ScriptedLLM
from lorebank import per_user
from lorebank.testing import temporary_bank


def first_passage(prompt: str) -> str:
    """A scripted LLM: answers with the first passage of its context."""
    context = prompt.split("---------------------")[1]
    return next(line for line in context.splitlines() if line.strip() and not line.startswith("mentioned_at"))


def llm() -> Any:
    if name := os.environ.get("LOREBANK_MODEL"):
        from llama_index.llms.openai import OpenAI

        return OpenAI(model=name)
    return ScriptedLLM(answer=first_passage)


with temporary_bank() as bank:
    bank.named("ana").retain("The code of Ana's bike lock is 4711.")
    bank.named("ben").retain("The code of Ben's bike lock is 8822.")

    engine = RetrieverQueryEngine.from_args(BankRetriever(per_user(bank)), llm=llm())
    for user in ("ana", "ben"):
        with instrument_tags({"user_id": user}):
            print(f"{user}:", engine.query("What is the code of my bike lock?"))
