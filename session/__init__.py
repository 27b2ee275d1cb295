"""Flow control of one MQTT session, sans-I/O: everything in FLOW-CONTROL.md, with the clock handed in.

`Session` joins the parts: the mailbox that the router fills, the gate (FC-3), the in-flight window (FC-1, FC-8), the
bounded mqueue (FC-5), the receiving side of QoS 1 and 2 (FC-20 to FC-22) and the counters that become metrics.
Times are integers in microseconds of a monotonic clock, sizes are payload bytes.
"""
