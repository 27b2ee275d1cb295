"""Metrics of a whole fleet, of any size and from a given model, with planted faults.

`python -m tests.support.spark.fleet --help`. The model:

- A fleet of brokers exports every `interval`. Each session belongs to one broker, was created within the first
  interval, and has a row in as many intervals as the number of rows asked for allows; a row begins where the session's
  row before ended, as the exporter has it, so that rows never leave a gap. A small share of the sessions are visitors:
  they come later, stay for a while (some for less than an interval), and end.
- Rates are Zipf-like: session number r of a broker is offered `busiest / r ** exponent` deliveries in each of its rows
  on average (Poisson), and not less than `calmest`. What share is QoS 0, 1 and 2 depends on its group of client ids.
- An ordinary session is healthy by every definition of the report: it is sent all that it is offered, nothing waits at
  the end of an interval, nothing is dropped, gated or sent again, its window is never full, and it is acknowledged
  within some 20 ms (log-normal).
- A share of the sessions are unfair or unfairly treated, each in one way (`episodes`) and for one stretch of time;
  before and after that they are ordinary. `planted.json` says exactly who, when and how much.

Rows are made by the exporter's own code: `session.counters.Counters`, `session.histogram.Histogram`,
`broker.telemetry.collector.Rows` and `broker.telemetry.quarter.write_file`. The books of every row balance.
The same arguments make the same rows, whatever the number of processes.
"""
