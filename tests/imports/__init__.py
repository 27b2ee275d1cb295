"""Generated configurations of other brokers: what `sluice import` makes of them never permits more than they do."""
