"""Runtimes that read ONNX models, fed by torch's own exporter.

In: a case with a program. Out: its outputs by name, bit for bit as the runtime returned them.
Guarantee: all of them read the same exported model, so the exporter's faults show on each.
"""
