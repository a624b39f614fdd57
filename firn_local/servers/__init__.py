"""One module a server of the embedded stack: what to start, how to see that it works, what it holds at first."""
