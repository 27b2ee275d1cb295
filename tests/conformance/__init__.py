"""What MQTT 3.1.1 and 5.0 ask of a server, statement by statement, held against a running broker."""
