"""The Codex CLI: its binary, flags, login, events and rollouts."""
