"""Recall and reflect: ranked memories of one or several banks, and answers drawn from them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from lorebank._domain.fusion import Answer, folded, fuse
from lorebank._domain.memory import Memory, RecallResult, RecallTrace, Reflection, State
from lorebank._domain.requests import RecallRequest, ReflectRequest
from lorebank._domain.scope import Scope, TagRule
from lorebank._hindsight import answers, asking
from lorebank._hindsight.server import Server, at, at_once, down
from lorebank._hindsight.transport import Call
from lorebank._hindsight.wire import encoded
from lorebank.errors import GarbledError, LorebankError, MissingError

BEFORE_LONG_QUERIES = (1, 0)
"""Servers older than this refuse a query of over 500 tokens; later ones cut it."""


@dataclass(frozen=True, slots=True)
class Search:
    """One recall: what is asked, under which rule."""

    request: RecallRequest
    rule: TagRule | None
    body: bytes


def recall(server: Server, scope: Scope, request: RecallRequest) -> RecallResult:
    """The memories that answer a query. Banks are asked side by side; one that is down is named in the result."""
    started = time.perf_counter()
    rule = scope.narrowed(request.rule)
    body = asking.recall_body(request, rule)
    if not asking.askable(request.query):
        return RecallResult("nothing", request.query, trace=_trace(request, (), (), started))
    if asking.is_long(request.query) and server.version() < BEFORE_LONG_QUERIES:
        body["query"] = asking.shortened(request.query)
    search = Search(request, rule, encoded(body))
    results = at_once([partial(_ranked, server, bank, search) for bank in scope.searched])
    return _result(scope, request, results, started)


def _ranked(server: Server, bank: str, search: Search) -> tuple[Memory, ...]:
    """One bank's answer, best first. What the rule forbids is dropped even where the server lets it through."""
    call = Call("POST", at(bank, "memories", "recall"), server.settings.recall_timeout, body=search.body, bank=bank)
    try:
        answer = server.ask(answers.Recall, call)
    except MissingError:
        return ()
    request, rule, least = search.request, search.rule, search.request.min_score
    return tuple(
        _remembered(unit, bank, answer, request)
        for unit in answer.results
        if unit.type in request.types
        and (rule is None or rule.admits(unit.tags))
        and (least is None or unit.scores is None or unit.scores.final is None or unit.scores.final >= least)
    )


def _remembered(unit: answers.Unit, bank: str, answer: answers.Recall, request: RecallRequest) -> Memory:
    memory = unit.memory(bank, explain=request.explain)
    if not request.include_source_facts:
        return memory
    texts = [answer.source_facts[fact].text for fact in unit.sources if fact in answer.source_facts]
    return replace(memory, metadata={**memory.metadata, "source_facts": texts}) if texts else memory


def _result(
    scope: Scope, request: RecallRequest, results: Sequence[tuple[Memory, ...] | LorebankError], started: float
) -> RecallResult:
    failed = [(bank, each) for bank, each in zip(scope.searched, results, strict=True) if isinstance(each, LorebankError)]
    grave = [error for _, error in failed if not down(error)]
    if grave or len(failed) == len(results):
        raise (grave or [failed[0][1]])[0]
    parts = [each for each in results if not isinstance(each, LorebankError)]
    kept = _best(parts, request)
    state: State = "partial" if failed else "found" if kept else "nothing"
    trace = _trace(request, parts, kept, started)
    return RecallResult(state, request.query, kept, tuple(bank for bank, _ in failed), trace)


def _best(parts: Sequence[tuple[Memory, ...]], request: RecallRequest) -> tuple[Memory, ...]:
    """Both bounds hold. A single bank's scores stay the server's own; of several, each is a share of its bank's best."""
    if len(parts) > 1:
        ranked = [Answer(part) for part in parts]
        return fuse(ranked, limit=request.limit, max_tokens=request.max_tokens, count=request.count_tokens)
    kept: list[Memory] = []
    seen: set[str] = set()
    left = request.max_tokens
    for memory in parts[0]:
        if len(kept) == request.limit:
            break
        text, cost = folded(memory.text), request.count_tokens(memory.text)
        if text not in seen and cost <= left:
            kept.append(memory)
            seen.add(text)
            left -= cost
    return tuple(kept)


def _trace(
    request: RecallRequest, parts: Sequence[tuple[Memory, ...]], kept: Sequence[Memory], started: float
) -> RecallTrace | None:
    """What can be said of a search that the server made: how many it gave, the best score, what the bounds left out."""
    if not request.explain:
        return None
    found = [memory for part in parts for memory in part]
    ids = {memory.id for memory in kept}
    return RecallTrace(
        terms={},
        period=(),
        pool=len(found),
        evidence=max((memory.score or 0.0 for memory in found), default=0.0),
        floor=request.min_score or 0.0,
        dropped=tuple(memory.id for memory in found if memory.id not in ids),
        elapsed=time.perf_counter() - started,
    )


def reflect(server: Server, scope: Scope, request: ReflectRequest) -> Reflection:
    """An answer from the scope's own bank; from the others where that knows nothing."""
    rule = scope.narrowed(request.recall.rule)
    body = encoded(asking.reflect_body(request, rule))
    first = _reflected(server, scope.bank, body)
    for bank in () if _founded(first) else scope.searched:
        if bank != scope.bank and _known(server, bank) and _founded(other := _reflected(server, bank, body)):
            return _reflection(other, bank, rule)
    return _reflection(first, scope.bank, rule)


def _reflected(server: Server, bank: str, body: bytes) -> answers.Reflect:
    call = Call("POST", at(bank, "reflect"), server.settings.reflect_timeout, body=body, bank=bank)
    answer = server.ask(answers.Reflect, call)
    if answer.structured_output is None and answer.structured_output_error:
        raise GarbledError("the server's model did not follow `response_schema`: make it simpler, or ask again")
    return answer


def _founded(answer: answers.Reflect) -> bool:
    """Whether the answer rests on anything: memories, or mental models that were made from some."""
    return answer.based_on is not None and bool(answer.based_on.memories or answer.based_on.mental_models)


def _reflection(answer: answers.Reflect, bank: str, rule: TagRule | None) -> Reflection:
    """What it rests on, as far as the rule admits it; servers before 1.0 don't tell the tags."""
    based_on = answer.based_on.memories if answer.based_on else ()
    told = [unit for unit in based_on if unit.known]
    admitted = [unit for unit in told if rule is None or "tags" not in unit.model_fields_set or rule.admits(unit.tags)]
    return Reflection(answer.text, tuple(unit.memory(bank) for unit in admitted), answer.structured_output)


def _known(server: Server, bank: str) -> bool:
    """Whether a bank has anything: reflecting on an unknown one would make it."""
    try:
        return server.read(answers.Counts, bank, "stats").total_nodes > 0
    except MissingError:
        return False
