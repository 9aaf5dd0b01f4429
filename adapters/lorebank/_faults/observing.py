"""Observations: one for each statement and set of tags, resting on the facts that say so."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from lorebank._faults.state import Banks
from lorebank._faults.values import Bank, Fact

__all__ = ["consolidate", "drop_observations", "forget_facts", "withdraw"]


def consolidate(banks: Banks, bank: Bank) -> int:
    """Give every new fact its observation. The count of facts seen."""
    now = banks.now()
    fresh = [bank.facts[each] for each in bank.unseen if each in bank.facts]
    bank.unseen.clear()
    for fact in fresh:
        bank.put(replace(fact, consolidated_at=now))
        _observe(banks, bank, fact)
    return len(fresh)


def forget_facts(bank: Bank, ids: Iterable[str]) -> None:
    """Remove facts, and observations that rest on nothing else."""
    for gone in ids:
        fact = bank.facts.pop(gone, None)
        bank.unseen.pop(gone, None)
        if fact is not None and fact.type == "observation":
            bank.observed.pop((fact.words, frozenset(fact.tags)), None)
        withdraw(bank, gone)


def withdraw(bank: Bank, fact_id: str) -> None:
    """A fact supports no observation any more; one without support goes."""
    for observation in bank.observations_of(fact_id):
        left = tuple(source for source in observation.sources if source != fact_id)
        if left:
            bank.put(replace(observation, sources=left))
        else:
            _drop(bank, observation)


def drop_observations(bank: Bank, fact_id: str) -> None:
    """The observations of a fact go; other facts they rest on wait for the next consolidation."""
    for observation in bank.observations_of(fact_id):
        _drop(bank, observation)
        for source in observation.sources:
            if source in bank.facts:
                bank.put(replace(bank.facts[source], consolidated_at=None))


def _drop(bank: Bank, observation: Fact) -> None:
    del bank.facts[observation.id]
    bank.observed.pop((observation.words, frozenset(observation.tags)), None)


def _observe(banks: Banks, bank: Bank, fact: Fact) -> None:
    key = (fact.words, frozenset(fact.tags))
    twin = bank.facts.get(bank.observed.get(key, ""))
    if twin is not None:
        sources = tuple(dict.fromkeys((*twin.sources, fact.id)))
        bank.put(replace(twin, text=fact.text, sources=sources, updated_at=banks.now()))
        return
    now = banks.now()
    own = replace(fact, id=banks.new_id(), type="observation", document_id=None, metadata={}, context="", updated_at=now)
    bank.put(replace(own, consolidated_at=None, edited_at=None, sources=(fact.id,)))
    bank.observed[key] = own.id
