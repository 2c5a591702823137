"""Waybill: hand work to the Codex CLI and bring back proof of what happened."""

__version__ = "0.1.0"
