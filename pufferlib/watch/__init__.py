"""Looking at what an agent does: in a window, in a video, and by playing oneself."""
