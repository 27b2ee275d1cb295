"""What all control packets have in common."""

from __future__ import annotations

from typing import ClassVar

from mypy_extensions import mypyc_attr


@mypyc_attr(acyclic=True)  # hot packets are acyclic, so their base class must be too: none refers to itself
class Packet:
    """A control packet. `fields` names the attributes that make up its content."""

    __slots__ = ()

    packet_type: ClassVar[int] = 0
    fields: ClassVar[tuple[str, ...]] = ()

    def encode(self, version: int) -> bytes:
        """Return the packet as bytes for protocol version 4 (3.1.1) or 5; ValueError if it cannot be."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def __repr__(self) -> str:
        parts = []
        for field in self.fields:
            # Keeps passwords out of logs.
            shown = "..." if field == "password" else repr(getattr(self, field))
            parts.append(f"{field}={shown}")
        return f"{type(self).__name__}({', '.join(parts)})"
