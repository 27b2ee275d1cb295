"""The list of addresses: topics with a limit in bytes over all sessions (FC-24)."""

from typing import TYPE_CHECKING, Final

from broker.admin.listing import Filter, Key, Listing, decoded, shortened
from broker.admin.rows import AddressRow
from session.address import Address

if TYPE_CHECKING:
    from broker.routing.address_book import AddressBook


_KEYS: Final[dict[str, Key[Address]]] = {
    "bytes": lambda address, _: address.size,
    "waiting": lambda address, _: address.waiting,
    "refused": lambda address, _: address.refused,
    "drops": lambda address, _: address.dropped,
}

_FILTERS: Final[dict[str, Filter[Address]]] = {
    "address": lambda address, part: part in decoded(address.topic),
    "full_policy": lambda address, wanted: address.rule.full_policy == wanted,
}


class AddressListing(Listing[Address]):
    """All addresses in use, and some that are no longer in use."""

    row_type = AddressRow
    keys = _KEYS
    filters = _FILTERS
    default = "bytes"

    def __init__(self, book: "AddressBook") -> None:
        self._book = book

    def items(self) -> list[Address]:
        """All addresses that the router keeps."""
        return self._book.known()

    def is_there(self, item: Address) -> bool:
        """Whether the address has not been evicted."""
        return self._book.knows(item)

    def name(self, item: Address) -> str:
        """The topic."""
        return decoded(item.topic)

    def row(self, item: Address, now: int) -> AddressRow:
        """One address."""
        return AddressRow(
            address=shortened(decoded(item.topic)),
            full_policy=item.rule.full_policy,
            size_bytes=item.size,
            max_size_bytes=item.rule.max_size_bytes,
            waiting=item.waiting,
            parked=item.parked,
            paged=item.paged,
            refused=item.refused,
            dropped=item.dropped,
        )
