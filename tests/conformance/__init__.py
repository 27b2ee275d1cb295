"""Tests a running broker against the numbered statements of MQTT 3.1.1 and 5.0."""
