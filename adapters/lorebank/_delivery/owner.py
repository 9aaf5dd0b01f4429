"""Who holds a claim: a name that tells, on the same machine, whether its process is still there."""

from __future__ import annotations

import os
import platform
import secrets


def own_name() -> str:
    """A name of this sender's: machine, process, and a part that no other has."""
    return f"{platform.node()}|{os.getpid()}|{secrets.token_hex(6)}"


def is_gone(owner: str) -> bool:
    """Whether the owner's process has certainly ended; `False` where that can't be told (another machine)."""
    node, _, process = owner.rpartition("|")[0].rpartition("|")
    if node != platform.node() or os.name == "nt" or not process.isdecimal():
        return False
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False
