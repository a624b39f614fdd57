"""The HTTP side: logins, query requests, uploads. Knows no SQL."""
