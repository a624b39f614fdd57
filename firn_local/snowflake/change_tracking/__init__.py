"""What commits changed in rows, how far streams were consumed, what differs between versions. Knows no session."""
