"""Authenticators: what decides about a user name and a password. Not on the way of a message, so not compiled."""
