"""Destinations of a run's metrics: nowhere, a file, TensorBoard, Weights & Biases, Neptune, or several of them."""
