"""What the imports of other brokers' configurations share: `sluice import`."""

from config.imported.draft import Finding, Line, Section, told
from config.imported.render import document

__all__ = ["Finding", "Line", "Section", "document", "told"]
