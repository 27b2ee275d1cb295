"""Load generator and runners: Sluice and other brokers under the same loads on the same machine."""
