"""Look inside. You learn: why a memory came up (`explain`), what the last turn showed and left out (`last_recall`), what is
stored and from where (`list`, `stats`, `tags`), and what is on its way to a server (`outbox`).

Runs offline on the embedded engine and the server of `lorebank.testing`. To correct what you find: recipe 16.
"""

import tempfile
from pathlib import Path

from lorebank import Bank, Message, open_bank
from lorebank.testing import Fault, FaultServer


def why(bank: Bank, question: str) -> None:
    """Each signal's share of the score, the largest first; the trace says what the question was taken for."""
    result = bank.explain(question)
    print(f"{question} -> {result[0].text}")
    signals = sorted(result[0].signals.items(), key=lambda pair: -pair[1])
    print("  because of:", *(f"{name} {share:.1f}" for name, share in signals[:2]))
    print("  words that count:", *sorted(result.trace.terms), "- best match:", f"{result.trace.evidence:.2f}")


def last_turn(bank: Bank) -> None:
    """What the model was shown in a turn: ids, which `bank.get` turns into memories."""
    with bank.session("monday") as session:
        session.before_turn([Message("user", "Which dentist do I go to?")])
        trace = session.last_recall()
    print(f"last turn: {trace.query!r}, {trace.state}, left out: {len(trace.dropped)}")
    for shown in trace.shown:
        memory = bank.get(shown.id)
        print(f"  shown: {memory.text} (by {memory.source}, tags: {', '.join(memory.tags) or 'none'})")


def stored(bank: Bank) -> None:
    print("by tag:", dict(bank.tags()), "- by source:", dict(sorted(bank.stats().by_source.items())))
    print("the newest:", bank.list(limit=1)[0].text)
    print("problems in the file:", list(bank.check().problems))


def on_its_way(bank: Bank, server: FaultServer) -> None:
    """Writes that the server has not taken wait in the outbox; it shows what became of them, never their content."""
    server.fault(Fault(status=503))
    bank.retain("The dentist moved to Elm Street.")
    report = bank.flush(timeout=2)
    status = bank.outbox.status()
    print(f"outbox: {status.waiting} waiting, {status.lost} given up; flush left {report.left}: {report.reason}")
    print("  ids, states and sizes, no content:", [f"{row.bytes} bytes for {row.bank}" for row in bank.outbox.list()])
    server.heal()
    print("the server is back, left:", bank.flush(timeout=30, until="completed").left)


with tempfile.TemporaryDirectory() as folder, FaultServer() as line:
    with open_bank(f"sqlite:///{Path(folder) / 'memory.db'}", bank="ana", recall={"keep_traces": 20}) as here:
        here.retain("The dentist is Dr Femi Okafor.", tags=["health"])
        here.retain(["The dog is called Bello.", "The dog's vet is Dr Haddad."], tags=["dog"])
        why(here, "Who is the vet of the dog?")
        last_turn(here)
        stored(here)
    with open_bank(line.url, bank="ana", ledger=f"sqlite:///{Path(folder) / 'outbox.db'}") as there:
        on_its_way(there, line)
