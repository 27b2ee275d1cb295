"""From a topic to those who get the message: subscriptions, shared groups, retained messages."""
