"""The scripted model: the other side of the wire, rehearsed offline."""
