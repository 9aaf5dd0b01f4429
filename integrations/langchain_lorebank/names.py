"""What memory tools are called in this process."""

from __future__ import annotations

OUR_TOOLS: dict[str, str] = {}
"""The names under which memory tools are offered, where those are not their own, and which tools they are."""
