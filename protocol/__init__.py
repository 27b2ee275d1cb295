"""The codec of MQTT 3.1.1 and 5.0: between bytes and packets, without I/O, clock or tasks."""
