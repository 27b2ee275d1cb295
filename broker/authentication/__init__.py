"""Who a client is: the AUTH exchange of MQTT 5 (section 4.12) and the methods that it carries."""
