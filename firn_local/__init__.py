"""The embedded stack: real servers on loopback that stand in for the cloud. Product code never imports this."""
