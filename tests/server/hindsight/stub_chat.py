"""What the stub chat model answers; chosen by the request's schema or tools, never by the model's name.

facts          one fact for each sentence of the content; ISO dates become event dates;
               sentences that begin with "Assistant:" become the assistant's experiences;
               [no-facts] anywhere in the content gives an empty list;
               [llm-error] gives HTTP 500 (so an extraction can be made to fail)
consolidation  one observation for each new fact, or an update of a near-identical one
dedup          always "keep"
tools          obeys a forced tool; otherwise closes with answer_ready / done, and the
               answer is the list of the texts that the searches found so far
operations     edits of a document: one appended block for each supporting fact
any schema     filled field by field from the text it was given
plain text     a list of the facts found in the prompt, or "ok"
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from stub_extraction import consolidation, facts, operations, text_of
from stub_text import found_items, json_values, sentences

Json = Any
Found = dict[str, list[tuple[str, str]]]

MODEL = "stub-chat"
SEARCHES = ("search_mental_models", "read_mental_models", "search_observations", "recall")
DEEPEST = 6
SIGNS = {  # the fields of a schema that tell what it is for
    "facts": {"facts"},
    "consolidation": {"creates", "updates"},
    "dedup": {"action", "reason"},
    "operations": {"operations"},
}


def schema_of(body: Json) -> Json:
    """The JSON schema that the answer must match, or None for plain text."""
    wanted = body.get("response_format") or {}
    if wanted.get("type") == "json_schema":
        return wanted["json_schema"].get("schema") or {}
    if wanted.get("type") != "json_object":
        return None
    for message in body["messages"]:
        text = text_of(message)
        at = text.find("matching this schema:")
        if at >= 0:
            try:
                return json.JSONDecoder().raw_decode(text[text.index("{", at) :])[0]
            except ValueError:
                break
    return {}


def tool_evidence(messages: list[Json]) -> Found:
    """What the searches of this conversation returned, by the name of the tool."""
    called: dict[str, str] = {}
    evidence: Found = {}
    for message in messages:
        called |= {call["id"]: call["function"]["name"] for call in message.get("tool_calls") or []}
        if message.get("role") == "tool":
            found = found_items(json_values(text_of(message)))
            evidence.setdefault(called.get(message.get("tool_call_id"), "?"), []).extend(found)
    return evidence


def question_of(messages: list[Json]) -> str:
    """The user's own question: the first user turn, less the sections appended to it."""
    for message in messages:
        if message.get("role") == "user":
            text = text_of(message).split("\n\n## ")[0]
            return text.strip()[:500] or "everything"
    return "everything"


def answer_lines(evidence: Found) -> list[str]:
    """The lines that the searches found, each once, without headings."""
    found = [line.strip() for name in SEARCHES for _, text in evidence.get(name, []) for line in text.splitlines()]
    told = [line.lstrip("-* ").strip() for line in found if not line.startswith("#") and line != "No content yet."]
    return list(dict.fromkeys(line for line in told if line))


def tool_call(body: Json) -> tuple[str, Json]:
    """(tool name, arguments) for one turn of an agent."""
    tools = {tool["function"]["name"]: tool["function"] for tool in body["tools"]}
    choice = body.get("tool_choice")
    forced = choice["function"]["name"] if isinstance(choice, dict) else None
    name = forced or ("answer_ready" if "answer_ready" in tools else "done")
    if name not in tools:
        name = next(iter(tools))
    properties = tools[name].get("parameters", {}).get("properties", {})
    evidence = tool_evidence(body["messages"])
    if name == "answer_ready":
        return name, {"answer_found": bool(answer_lines(evidence))}
    if name == "done":
        return name, _done(evidence, properties)
    arguments = {"reason": "stub", "query": question_of(body["messages"])}
    return name, {key: value for key, value in arguments.items() if key in properties}


def _done(evidence: Found, properties: Json) -> Json:
    lines = answer_lines(evidence)
    told = "\n".join(f"- {line}" for line in lines)
    arguments: dict[str, Json] = {
        "answer_found": bool(lines),
        "memory_ids": [i for i, _ in evidence.get("recall", [])],
        "observation_ids": [i for i, _ in evidence.get("search_observations", [])],
        "mental_model_ids": [i for i, _ in evidence.get("search_mental_models", [])],
    }
    if "document" in properties:
        blocks = [told or "Nothing is recorded yet."]
        arguments["document"] = {"sections": [{"heading": "Summary", "level": 2, "blocks": blocks}]}
    else:
        arguments["answer"] = told or "Nothing is recorded about that."
    if "directive_compliance" in properties:
        arguments["directive_compliance"] = "All directives are followed."
    return arguments


def fill(schema: Json, text: str, root: Json, depth: int = 0) -> Json:
    """A value that matches a schema, made of the text."""
    if "$ref" in schema:
        schema = root.get("$defs", {}).get(schema["$ref"].rsplit("/", 1)[-1], {})
    for key in ("anyOf", "oneOf", "allOf"):
        if schema.get(key):
            return fill(schema[key][0], text, root, depth)
    if "const" in schema or schema.get("enum"):
        return schema["const"] if "const" in schema else schema["enum"][0]
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object" or "properties" in schema:
        properties = {} if depth > DEEPEST else schema.get("properties", {})
        return {key: fill(value, text, root, depth + 1) for key, value in properties.items()}
    if kind == "array":
        items = schema.get("items") or {}
        return [fill(items, line, root, depth + 1) for line in (sentences(text) or [text])[:5]]
    return _scalar(kind, schema, text)


def _scalar(kind: str | None, schema: Json, text: str) -> Json:
    if kind in ("integer", "number"):
        match = re.search(r"-?\d+", text)
        value = int(match.group(0)) if match else int(schema.get("minimum", 0))
        value = max(value, schema.get("minimum", value))
        return min(value, schema.get("maximum", value))
    if kind == "boolean":
        return True
    return None if kind == "null" else text.strip()


def generic(body: Json, schema: Json) -> Json:
    """Any other schema, filled from the prompt or the part of it in triple quotes."""
    prompt = text_of(body["messages"][-1])
    quoted = re.search(r'"""(.*?)"""', prompt, re.DOTALL)
    text = (quoted.group(1) if quoted else prompt).strip()
    text = re.sub(r"^[-*] ", "", text, flags=re.MULTILINE)
    return fill(schema, text, schema)


def plain(body: Json) -> str:
    """The facts found in the prompt, as a list."""
    found = found_items(json_values(text_of(body["messages"][-1])))
    return "\n".join(f"- {text}" for _, text in found) or "ok"


def chat(body: Json) -> tuple[str, Json, str]:
    """(kind, assistant message, finish reason)."""
    kind = kind_of(body)
    if body.get("tools") and body.get("tool_choice") != "none":
        name, arguments = tool_call(body)
        digest = hashlib.blake2b(json.dumps(body["messages"]).encode(), digest_size=6).hexdigest()
        function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
        calls = [{"id": f"call_{digest}", "type": "function", "function": function}]
        return f"tool:{name}", {"role": "assistant", "content": None, "tool_calls": calls}, "tool_calls"
    schema = schema_of(body)
    if schema is None:
        return "text", {"role": "assistant", "content": plain(body)}, "stop"
    writers = {"facts": facts, "consolidation": consolidation, "operations": operations, "dedup": _keep}
    value = writers[kind](body) if kind in writers else generic(body, schema)
    return kind, {"role": "assistant", "content": json.dumps(value, ensure_ascii=False)}, "stop"


def _keep(body: Json) -> Json:
    return {"action": "keep", "text": "", "reason": "stub"}


def kind_of(body: Json) -> str:
    """The kind of a chat request, without answering it (for failures of one kind only)."""
    if body.get("tools") and body.get("tool_choice") != "none":
        return "tool"
    keys = set((schema_of(body) or {}).get("properties", {}))
    signs = {
        "facts": {"facts"},
        "consolidation": {"creates", "updates"},
        "dedup": {"action", "reason"},
        "operations": {"operations"},
    }
    known = next((kind for kind, sign in signs.items() if sign <= keys), None)
    return known or ("schema" if keys else "text")
