"""Follow-up work on memories: facts that a completer extracts, observations that are consolidated."""
