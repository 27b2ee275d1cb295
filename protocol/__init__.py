"""MQTT 3.1.1 and 5.0 as bytes and packets: a codec without input, output, clock or tasks."""
