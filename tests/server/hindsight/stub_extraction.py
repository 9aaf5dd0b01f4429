"""What the stub chat model answers while the server stores: facts, observations, edits of documents."""

from __future__ import annotations

import json
import re
from typing import Any

from stub_text import ASSISTANT, ISO_DATE, SPEAKER, WORD, json_values, names, overlap, sentences, spoken

Json = Any

UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
NEW_FACT = re.compile(rf"^\[({UUID})\] (.+)$", re.MULTILINE | re.IGNORECASE)
SAME = 0.6  # of the words


def text_of(message: Json) -> str:
    """A message's text, whichever of the two forms it has."""
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(part.get("text", "") for part in content if isinstance(part, dict))
    return content or ""


def facts(body: Json) -> Json:
    """One fact for each sentence of the content."""
    prompt = text_of(body["messages"][-1])
    raw = re.split(r"\n(?:Content|Text):\n", prompt, maxsplit=1)[-1]  # 1.x and 0.9 name it differently
    text = spoken(raw.strip())
    if "[llm-error]" in text:
        raise RuntimeError("asked to fail by [llm-error] in the content")
    if "[no-facts]" in text:
        return {"facts": []}
    found: dict[str, Json] = {}
    for said in sentences(text):
        by_assistant = said.lower().startswith(ASSISTANT)
        sentence = SPEAKER.sub("", said.split(":", 1)[1].strip() if by_assistant else said)
        if WORD.search(sentence):
            found.setdefault(sentence, _fact(sentence, "assistant" if by_assistant else "world"))
    return {"facts": list(found.values())}


def _fact(sentence: str, kind: str) -> Json:
    dates = ISO_DATE.findall(sentence)
    return {
        "what": sentence,
        "when": "N/A",  # the server would append it to the text of the fact
        "where": "N/A",
        "who": "N/A",
        "why": "N/A",
        "fact_kind": "event" if dates else "conversation",
        "occurred_start": dates[0] if dates else None,
        "occurred_end": dates[-1] if dates else None,
        "fact_type": kind,
        "entities": names(sentence),
        "causal_relations": None,
        "from_attachments": None,
    }


def consolidation(body: Json) -> Json:
    """One observation for each new fact, or an update of one that says nearly the same."""
    prompt = text_of(body["messages"][-1])
    lists: list[list[Json]] = [value for value in json_values(prompt) if isinstance(value, list)]
    known = [item for value in lists for item in value if isinstance(item, dict) and item.get("id") and item.get("text")]
    creates: list[Json] = []
    updates: dict[str, Json] = {}
    for fact_id, told in NEW_FACT.findall(prompt):
        text = re.sub(r" \((?:occurred_|mentioned_).*\)$", "", told)
        twin = max(known, key=lambda item: overlap(item["text"], text), default={})
        if twin and overlap(twin["text"], text) >= SAME:
            update: Json = updates.setdefault(twin["id"], _update(twin, text))
            update["source_fact_ids"].append(fact_id)
        else:
            creates.append({"text": text, "source_fact_ids": [fact_id], "reason": "new statement"})
    return {"creates": creates, "updates": list(updates.values()), "deletes": []}


def _update(twin: Json, text: str) -> Json:
    said = {"observation_id": twin["id"], "current_text": twin["text"], "text": text}
    return {**said, "source_fact_ids": [], "reason": "same statement"}


def operations(body: Json) -> Json:
    """Edits of a stored document: append each supporting fact that it does not state yet."""
    prompt = text_of(body["messages"][-1])
    document = next((value for value in json_values(prompt) if isinstance(value, dict) and "sections" in value), None)
    if document is None or "retract" in text_of(body["messages"][0]).lower():
        return {"operations": []}
    stated = json.dumps(document, ensure_ascii=False)
    told = [text.strip() for text in re.findall(rf"\[(?:world|experience|observation):{UUID}\]\s*(.+)", prompt)]
    new = list(dict.fromkeys(text for text in told if text not in stated))
    if not new:
        return {"operations": []}
    sections = document["sections"]
    if not sections:
        return {"operations": [{"op": "add_section", "heading": "Summary", "level": 2, "blocks": new}]}
    return {"operations": [{"op": "append_block", "section_id": sections[0]["id"], "text": text} for text in new]}
