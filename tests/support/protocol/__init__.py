"""What the tests of the codec share, and other tests borrow: packets, strategies, malformed packets."""
