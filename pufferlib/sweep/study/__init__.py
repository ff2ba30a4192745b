"""What drivers share: the study and its storage, who runs which trial, and what is confirmed on fresh seeds."""
