"""Messages of full addresses on disk (FC-26): one writing thread, files of records, a directory for each run."""
