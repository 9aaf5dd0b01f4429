"""Remember one thing, and find it again. You learn: open_bank, retain, recall, receipts, and "nothing known".

Runs offline on the embedded engine: no server, no model.
"""

import tempfile
from pathlib import Path

from lorebank import open_bank

with tempfile.TemporaryDirectory() as folder:
    file = f"sqlite:///{Path(folder) / 'memory.db'}"

    with open_bank(file, bank="alice") as bank:
        receipt = bank.retain("Ana prefers aisle seats.", context="travel", tags=["trip"])
        print("stored:", len(receipt.stored))
        print("said again:", len(bank.retain("Ana prefers aisle seats.", tags=["trip"]).duplicates), "already known")

    # Another process would do the same: only the file is shared.
    with open_bank(file, bank="alice") as bank:
        for memory in bank.recall("Which seat does Ana like?"):
            print("recalled:", memory.text)
        print("off topic:", bank.recall("What is the boiling point of tungsten?").state)
        print("another user:", bank.named("bob").recall("Which seat does Ana like?").state)
