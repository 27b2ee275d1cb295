"""Sluice with other people's clients."""
