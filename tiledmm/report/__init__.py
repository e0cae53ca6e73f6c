"""Tables, documents and rooflines: how results are shown, whatever produced them. May import ``codegen`` and below."""
