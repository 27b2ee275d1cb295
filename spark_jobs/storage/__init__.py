"""Folders and files at any address that Hadoop knows, and plain paths of this machine."""
