"""One user, several projects. You learn: `project`, what the scopings write and read, `project="auto"`, and that what the user
said outside of any project is known in each of them.

Runs offline on the embedded engine.
"""

import os
import tempfile
from pathlib import Path

from lorebank import Bank, open_bank


def told(bank: Bank, question: str) -> str:
    return " ".join(sorted(memory.text for memory in bank.recall(question))) or "nothing"


def tagged(url: str) -> None:
    """Once a project is named, the scoping is `per-project-tagged`: the project's memories, and the user's own beside them."""
    with open_bank(url, bank="ana") as everywhere:
        everywhere.retain("Ana never deploys on Fridays.")
    with open_bank(url, bank="ana", project="atlas") as atlas, open_bank(url, bank="ana", project="zeus") as zeus:
        atlas.retain("The atlas team deploys to Frankfurt.")
        zeus.retain("The zeus team deploys to Oslo.")
        print(f"per-project-tagged: writes {atlas.scope.bank}, reads {' and '.join(atlas.scope.reads)}")
        print("  in atlas:", told(atlas, "How do we deploy?"))
        print("  in zeus:", told(zeus, "How do we deploy?"))
    with open_bank(url, bank="ana") as everywhere:
        print("  outside of both:", told(everywhere, "How do we deploy?"))


def apart(url: str) -> None:
    """`per-project`: a bank for each project, and nothing beside it."""
    with open_bank(url, bank="ana", project="hermes", scoping="per-project") as hermes:
        print(f"per-project: writes {hermes.scope.bank}, reads {' and '.join(hermes.scope.reads)}")
        print("  before anything was told:", told(hermes, "How do we deploy?"))
        hermes.retain("The hermes team deploys to Madrid.")
        print("  in hermes:", told(hermes, "How do we deploy?"))


def automatic(url: str, folder: Path) -> None:
    """`auto` takes the git remote's owner and name, else the folder of the checkout; worktrees share it."""
    git, before = folder / "code" / ".git", Path.cwd()
    git.mkdir(parents=True)
    (git / "config").write_text('[remote "origin"]\nurl = https://git.example/Acme/Rocket.git\n', encoding="utf-8")
    os.chdir(git.parent)
    try:
        with open_bank(url, bank="ana", project="auto") as bank:
            print("auto: writes", bank.scope.bank)
    finally:
        os.chdir(before)


with tempfile.TemporaryDirectory() as folder:
    place = f"sqlite:///{Path(folder) / 'memory.db'}"
    tagged(place)
    apart(place)
    automatic(place, Path(folder))
