"""What a person does with a sink that runs or has run: status, offsets, logs, reports, validation."""
