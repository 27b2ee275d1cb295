"""What several test folders share: broker processes, certificates, a client at the level of packets."""
