"""The list of addresses: topics with a limit in bytes over all sessions (FC-24)."""

from typing import TYPE_CHECKING, Final

from broker.admin.listing import LONGEST_NAME, Key, Listing, shortened
from session.address import Address

if TYPE_CHECKING:
    from broker.addresses.book import AddressBook

_KEYS: Final[dict[str, Key[Address]]] = {
    "bytes": lambda address, _: address.size,
    "waiting": lambda address, _: address.waiting,
    "refused": lambda address, _: address.refused,
    "drops": lambda address, _: address.dropped,
}


class AddressListing(Listing[Address]):
    """All addresses in use, and some that are no longer in use."""

    columns = (
        "address",
        "full_policy",
        "size_bytes",
        "max_size_bytes",
        "waiting",
        "parked",
        "paged",
        "refused",
        "dropped",
    )
    keys = _KEYS
    default = "bytes"

    def __init__(self, book: "AddressBook") -> None:
        self._book = book

    def items(self) -> list[Address]:
        """All addresses that the router keeps."""
        return self._book.known()

    def is_there(self, item: Address) -> bool:
        """Whether the address has not been evicted."""
        return self._book.knows(item)

    def row(self, item: Address, now: int) -> list[object]:
        """The cells of one address."""
        name = item.topic[: 4 * (LONGEST_NAME + 1)].decode(errors="replace")
        return [
            shortened(name),
            item.rule.full_policy,
            item.size,
            item.rule.max_size_bytes,
            item.waiting,
            item.parked,
            item.paged,
            item.refused,
            item.dropped,
        ]
