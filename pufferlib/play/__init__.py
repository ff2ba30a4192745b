"""Lists, times, scores and plays environments with policies."""
