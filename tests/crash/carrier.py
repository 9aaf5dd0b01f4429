"""Exports or imports once, and says when it begins: `carrier.py export|import URL BANK FILE`."""

from __future__ import annotations

import sys

from lorebank import open_bank


def main() -> None:
    verb, url, name, file = sys.argv[1:]
    with open_bank(url, bank=name) as bank:
        bank.stats()
        print("begun", flush=True)  # noqa: T201 - the test waits for it
        if verb == "export":
            bank.export(file, overwrite=True)
        else:
            bank.import_(file)
        print("done", flush=True)  # noqa: T201 - the test waits for it


main()
