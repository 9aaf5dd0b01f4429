"""Find memories by meaning, with embeddings of your own. You learn: any LangChain `Embeddings` will do, what it adds to recall,
and that a model that fails leaves recall by words.

Runs offline with toy embeddings that know a few synonyms; LOREBANK_EMBEDDER=minilm (extra `dense`) or wordllama (extra
`embeddings`) takes a real model that is built in. Needs the extra `langchain`.
"""

import os
import tempfile
from collections.abc import Sequence
from zlib import crc32

from langchain_core.embeddings import Embeddings

from langchain_lorebank import EmbeddingsEmbedder
from lorebank import Bank, open_bank

TOPICS = (
    ("flat", "apartment", "rent", "home", "lease", "landlord"),
    ("doctor", "dentist", "clinic", "teeth", "checkup"),
    ("bike", "bicycle", "cycling", "ride"),
    ("dog", "puppy", "pet", "walk"),
)
FACTS = (
    "The lease is with Mr Okoro.",
    "Dr Femi looked at my teeth.",
    "The bicycle has a puncture.",
    "Bello is a puppy of ten weeks.",
)


class ToyEmbeddings(Embeddings):
    """A dimension for each topic, so that its words are near each other; other words get one of many by chance."""

    def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        vector = [0.0] * (len(TOPICS) + 60)
        for word in text.lower().replace("?", "").replace(".", "").split():
            topic = next((number for number, words in enumerate(TOPICS) if word in words), None)
            vector[len(TOPICS) + crc32(word.encode()) % 60 if topic is None else topic] += 1.0 if topic is None else 6.0
        return vector


class Broken(ToyEmbeddings):
    def embed_query(self, text: str) -> list[float]:
        raise ConnectionError(f"the model's service is down: no vector for {len(text)} characters")


def ask(bank: Bank, question: str) -> None:
    [best, *_] = [*bank.recall(question, explain=True), None]
    why = "-" if best is None else ", ".join(name for name in best.signals if name in ("lexical", "meaning"))
    print(f"{question} -> {'nothing' if best is None else best.text} ({why})")


def main() -> None:
    embedder = os.environ.get("LOREBANK_EMBEDDER") or EmbeddingsEmbedder(ToyEmbeddings(), name="toy-1")
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/memory.db"
        with open_bank(url, bank="ana") as bank:  # by words alone
            bank.retain(list(FACTS))
            ask(bank, "Who is the landlord of my apartment?")
        with open_bank(url, bank="ana", embedder=embedder) as bank:  # the memories that are there get vectors now
            print(f"vectors are made: {bank.flush(timeout=60).done}")
            ask(bank, "Who is the landlord of my apartment?")
            ask(bank, "Which dentist do I go to?")
            ask(bank, "What is the capital of Peru?")
        with open_bank(url, bank="ana", embedder=EmbeddingsEmbedder(Broken(), name="toy-1", dimensions=len(TOPICS) + 60)) as bank:
            ask(bank, "What about the puppy?")


if __name__ == "__main__":
    main()
