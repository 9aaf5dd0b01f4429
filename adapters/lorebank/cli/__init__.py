"""The `lorebank` command."""
