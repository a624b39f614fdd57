"""What a run says about itself: events for the supervisor, metrics for Prometheus, progress for people."""
