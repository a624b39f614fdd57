"""Reading SQL and writing answers: errors, parser, tokenizer, types. Knows no session and no data."""
