"""Load generator and runners: Sluice beside other brokers, under the same loads, on the same machine."""
