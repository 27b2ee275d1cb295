"""Finds the sessions that get a message: subscriptions, shared groups, retained messages."""
