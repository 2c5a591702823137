"""A packet's life: from declaration to receipt and judgement."""
