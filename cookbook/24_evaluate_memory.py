"""Evaluate your agent's memory. You learn: questions with the memories that should answer them, recall@k, questions that nothing
should answer, and what `explain=True` tells of those that were missed.

Runs offline on the embedded engine; LOREBANK_EMBEDDER=minilm (extra `dense`) or wordllama (extra `embeddings`) shows what finding
by meaning adds to your own questions.
"""

import os

from lorebank import Bank
from lorebank.testing import temporary_bank

TOLD = {  # from your own agent: what it was told, each with a name of yours
    "seat": "Ana always takes an aisle seat.",
    "dentist": "The dentist is Dr Femi Okafor.",
    "move": "Ana moved from Berlin to Porto in March.",
    "cello": "Ana plays the cello in an orchestra.",
    "nuts": "Ana is allergic to peanuts and cashews.",
    "car": "The van is at the garage until Thursday.",
    "lease": "The lease is with Mr Okoro.",
}
ASKED = {  # what users ask, and what should come up
    "Which seat does Ana take?": {"seat"},
    "Who is the dentist?": {"dentist"},
    "Where did Ana move to?": {"move"},
    "What is Ana allergic to, and what does she play?": {"nuts", "cello"},
    "When is the van back from the garage?": {"car"},
    "Who is the landlord of the apartment?": {"lease"},
}
UNKNOWN = ["What is the boiling point of tungsten?", "Who won the chess match?"]


def recall_at(bank: Bank, k: int) -> float:
    """The share of the wanted memories that are among the first `k`, as a mean over the questions."""
    shares = []
    for question, wanted in ASKED.items():
        found = {str(memory.metadata["name"]) for memory in bank.recall(question, limit=k)}
        shares.append(len(found & wanted) / len(wanted))
    return sum(shares) / len(shares)


def missed(bank: Bank, k: int) -> None:
    """Why: which words count, what came up instead, and whether the best match was good enough for an answer."""
    for question, wanted in ASKED.items():
        result = bank.recall(question, limit=k, explain=True)
        if lost := wanted - {str(memory.metadata["name"]) for memory in result}:
            trace = result.trace
            print(f"missed: {', '.join(TOLD[name] for name in sorted(lost))}\n  asked: {question}")
            print(f"  words that count: {', '.join(sorted(trace.terms))}; found instead: {[m.text for m in result]}")
            print(f"  the best match is {'under' if trace.evidence < trace.floor else 'over'} the floor of {trace.floor:.2f}")


def main(bank: Bank) -> None:
    bank.retain([{"content": text, "metadata": {"name": name}} for name, text in TOLD.items()])
    bank.flush(timeout=60)  # with an embedder: until all vectors are made
    for k in (1, 2, 5):
        print(f"recall@{k}: {recall_at(bank, k):.2f}")
    silent = [question for question in UNKNOWN if bank.recall(question).state == "nothing"]
    print(f"rightly nothing: {len(silent)} of {len(UNKNOWN)}")
    missed(bank, k=5)


with temporary_bank("ana", embedder=os.environ.get("LOREBANK_EMBEDDER")) as opened:
    main(opened)
