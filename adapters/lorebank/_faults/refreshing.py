"""Writing a mental model: what is recalled for its source query, as markdown."""

from __future__ import annotations

from dataclasses import replace

from lorebank._faults.recalling import TYPES, search, tag_test
from lorebank._faults.state import Banks
from lorebank._faults.values import Bank

__all__ = ["refresh"]

KEPT_VERSIONS = 50


def refresh(banks: Banks, bank: Bank, mental_model_id: str) -> str:
    """The outcome; with nothing found, or an unknown model, nothing changes."""
    model = bank.mental_models.get(mental_model_id)
    if model is None:
        return "content_preserved_no_new_facts"
    trigger = model.trigger
    mode = trigger.get("tags_match") or ("all_strict" if model.tags else "any")
    test = tag_test(model.tags, mode, trigger.get("tag_groups"))
    facts = [each.fact for each in search(bank, model.source_query, types=trigger.get("fact_types") or TYPES, test=test)]
    lines = dict.fromkeys(fact.text for fact in facts)
    content = "## Summary\n\n" + "".join(f"- {line}\n" for line in lines) if lines else model.content
    now = banks.now()
    outcome = (
        "content_written" if content != model.content else "content_unchanged" if lines else "content_preserved_no_new_facts"
    )
    past = ((now, model.content), *model.history)[:KEPT_VERSIONS] if content != model.content else model.history
    bank.mental_models[model.id] = replace(
        model,
        content=content,
        refreshed_at=now,
        seen_at=max((fact.updated_at for fact in facts), default=model.seen_at),
        outcome=outcome,
        based_on=tuple(fact.id for fact in facts),
        history=past,
    )
    return outcome
