"""The admin API of a host with several cells (broker/cluster/CLUSTER.md): the keeper answers, and asks the cells.

Each cell serves the API of a broker on a Unix socket of its own. A request goes to the home of the client that it is
about, or to all cells at once, and their answers become one. A cell that does not answer in time is named.
"""
