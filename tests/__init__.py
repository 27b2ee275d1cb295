"""The tests; a package, so that helpers are imported as `tests.<module>` without the root being on sys.path."""
