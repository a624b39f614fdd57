"""What crosses the sink's rooms: plain immutable values, with no logic but reading themselves."""
