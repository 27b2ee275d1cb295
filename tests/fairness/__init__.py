"""Fairness between publishers and subscribers: the same cases on Sluice and other brokers, by paho-mqtt."""
