"""The hourly datasets as DataFrame -> DataFrame functions: raw rows in, one row per key out."""
