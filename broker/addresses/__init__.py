"""Topics whose waiting bytes have a limit (FC-24 to FC-26), and what waits for room in them."""
