"""A deterministic simulation of several cells: real brokers, fake links, disks and a clock; a seed decides all else."""
