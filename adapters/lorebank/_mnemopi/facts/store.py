"""The facts of a file: written with their memories, settled against each other, and looked up for a question.

All inside the caller's transaction. A slot is a bank's subject and relation, within one project where the memories carry
projects' tags.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from lorebank._database.driver import Row, Source, rows_of, run, run_many
from lorebank._mnemopi.dialects import spoken
from lorebank._mnemopi.facts.asking import Asked
from lorebank._mnemopi.facts.rules import Fact
from lorebank._mnemopi.facts.truth import Statement, superseded

WINDOW = 64
"""Statements of one slot that are compared, the newest."""
_INSERT = "INSERT INTO facts (bank, key, realm, subject, relation, value, holds) VALUES (?, ?, ?, ?, ?, ?, ?)"
_SLOTS = spoken("SELECT DISTINCT f.realm, f.subject, f.relation FROM {facts_by_key} WHERE f.bank = ?")
_STATEMENTS = """SELECT f.key, f.realm, f.subject, f.relation, f.value, f.holds, m.mentioned_at, m.id, m.superseded_by,
                 (SELECT count(*) FROM facts o WHERE o.key = f.key)
                 FROM facts f JOIN memories m ON m.key = f.key
                 WHERE f.bank = ? AND f.relation = ? AND f.subject = ? AND f.realm = ?
                 AND m.invalidated_at IS NULL AND (m.valid_until IS NULL OR m.valid_until > ?)
                 ORDER BY m.mentioned_at DESC, f.number DESC LIMIT ?"""
_MARK = "UPDATE memories SET superseded_by = ? WHERE bank = ? AND key = ?"
_UNMARK = "UPDATE memories SET superseded_by = NULL WHERE bank = ? AND key = ? AND invalidated_at IS NULL"
_ASKED = spoken(
    """SELECT f.key, f.realm, f.subject, f.relation, f.value, f.holds, m.mentioned_at
       FROM {facts_by_relation} JOIN memories m ON m.key = f.key
       WHERE m.invalidated_at IS NULL AND (m.valid_until IS NULL OR m.valid_until > ?)
       ORDER BY m.mentioned_at DESC LIMIT ?"""
)
ASKED_AT_MOST = 256
"""Statements of one bank that are looked at for a question, the newest."""


def realm(tags: Sequence[str]) -> str:
    """What keeps the facts of one project apart from those of another: its tags."""
    return "\n".join(sorted(tag for tag in tags if tag.startswith("project:")))


def write(connection: Source, bank: int, told: Sequence[tuple[int, str, Sequence[Fact]]], now: int) -> None:
    """Writes the facts of new memories (key, realm, facts), and settles what they speak of."""
    rows = [(bank, key, realm, *_columns(fact)) for key, realm, facts in told for fact in facts]
    if rows:
        run_many(connection, _INSERT, rows)
        settle(connection, bank, {(realm, fact.subject, fact.relation) for _, realm, facts in told for fact in facts}, now)


def rewrite(connection: Source, bank: int, key: int, told: tuple[str, Sequence[Fact]], now: int) -> None:
    """Replaces the facts of a memory that was changed. What took the place of an invalidated one stays: somebody said so."""
    before = slots_of(connection, bank, [key])
    run(connection, "DELETE FROM facts WHERE key = ?", (key,))
    run(connection, _UNMARK, (bank, key))
    write(connection, bank, [(key, *told)], now)
    settle(connection, bank, before, now)


def slots_of(connection: Source, bank: int, keys: Sequence[int]) -> set[tuple[str, str, str]]:
    """What these memories speak of: realm, subject, relation."""
    if not keys:
        return set()
    return {(row[0], row[1], row[2]) for row in rows_of(connection, _SLOTS, (json.dumps(list(keys)), bank))}


def settle(connection: Source, bank: int, slots: Iterable[tuple[str, str, str]], now: int) -> None:
    """Marks the memories whose statements were all superseded with the one that took their place, and unmarks others."""
    for realm, subject, relation in slots:
        rows = rows_of(connection, _STATEMENTS, (bank, relation, subject, realm, now, WINDOW))
        by_key = {row[0]: row for row in rows}
        gone = {former.key: later.key for former, later in superseded([_statement(row, bank) for row in rows]).items()}
        for key, row in by_key.items():
            successor = by_key[gone[key]][7] if key in gone and row[9] == 1 else None
            if row[9] == 1 and successor != row[8]:
                run(connection, _MARK, (successor, bank, key))


def asked_for(connection: Source, banks: Sequence[int], wanted: Asked, now: int) -> tuple[list[Statement], list[Statement]]:
    """The statements, the newest, that a question asks for, and such of others than who is meant; none is invalidated or has
    expired.
    """
    relations = json.dumps(wanted.relations)
    found = [(bank, row) for bank in banks for row in rows_of(connection, _ASKED, (relations, bank, now, ASKED_AT_MOST))]
    meant = wanted.about(row[2] for _, row in found)
    said = [_statement(row, bank) for bank, row in found]
    return [each for each in said if each.subject in meant], [each for each in said if each.subject not in meant]


def _columns(fact: Fact) -> tuple[str, str, str, int]:
    return fact.subject, fact.relation, " ".join(fact.value), int(fact.holds)


def _statement(row: Row, bank: int) -> Statement:
    return Statement(row[0], (bank, row[1], row[2], row[3]), frozenset(row[4].split()), bool(row[5]), row[6])
