"""One trial: its configuration, its process, its learning curve."""
