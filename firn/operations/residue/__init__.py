"""What a retired sink left behind, place by place: each thing as a `Finding`, looked at without changing anything.

What the sink's method and its tables left, the caller hands in as values (`finding.MethodResidue`). Not for the order
in which residue is removed (`firn.operations.clean`).
"""
