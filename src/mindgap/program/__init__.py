"""The portable computation graph.

In: a `torch.export.ExportedProgram`. Out: a `Program` that any torch >= 2.6 can interpret, that travels as
a few kilobytes of msgpack, and that converts back for runtimes that need an exported program.
Guarantee: source module, program and decoded program give identical bits; reading one executes nothing.
"""
