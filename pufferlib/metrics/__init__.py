"""The metrics of a training, and the dashboard."""
