"""What a person does with an export that runs or has run: status, validation, history, clean."""
