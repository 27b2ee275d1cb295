"""Another number of workers: sessions, messages and retained messages go to the journals of their new homes."""
