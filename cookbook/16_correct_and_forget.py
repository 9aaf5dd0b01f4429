"""Correct what is remembered, and forget it. You learn: that what changed needs no correction, how to update, take back and
replace a memory, and that what is forgotten is in no row, index or page of the file.

Runs offline on the embedded engine.
"""

import tempfile
from datetime import UTC, datetime
from pathlib import Path

from lorebank import Bank, open_bank


def ask(bank: Bank, question: str) -> None:
    found = [memory.text for memory in bank.recall(question, limit=1)]
    print(f"{question} -> {found[0] if found else 'nothing'}")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "memory.db"
        with open_bank(f"sqlite:///{file}", bank="ana") as bank:
            # What changes over time needs no correction: the newer statement goes first, the older one stays askable.
            bank.retain("I live in Berlin.", timestamp=datetime(2026, 1, 10, tzinfo=UTC))
            bank.retain("I moved to Lisbon.", timestamp=datetime(2026, 6, 1, tzinfo=UTC))
            ask(bank, "Where do I live?")
            ask(bank, "Where did I live before?")

            # What was misheard is corrected in place: what follows from the text follows the new one.
            [dentist] = bank.retain("The dentist is Dr Fermi.").stored
            bank.update(dentist.id, content="The dentist is Dr Femi.")
            ask(bank, "Who is the dentist?")

            # What is no longer true is taken out of recall, but kept: `replacement` says what holds instead.
            [old] = bank.retain("The locker code is 4711.").stored
            [new] = bank.retain("The locker code is 8822.").stored
            bank.invalidate(old.id, replacement=new.id)
            ask(bank, "What is the locker code?")
            print(f"kept, but not recalled: {[memory.text for memory in bank.list(state='invalidated')]}")

            # What must go is forgotten: shown first, then deleted for good.
            bank.retain("The diagnosis is quokkaitis.", tags=["health"])
            print(f"would forget: {len(bank.forget(tags=['health'], dry_run=True).ids)}")
            removal = bank.forget(tags=["health"])
            left = [place for place in file.parent.iterdir() if b"quokkait" in place.read_bytes()]
            print(f"forgotten: {len(removal.ids)}, purged: {removal.purged}, files that still hold the word: {len(left)}")
            ask(bank, "What is the diagnosis?")


if __name__ == "__main__":
    main()
