"""Sluice with third-party clients."""
