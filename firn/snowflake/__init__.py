"""One way into Snowflake: sessions, transactions, names, grants, and its refusals explained."""
