"""How rows travel into Snowflake: one package for each method."""
