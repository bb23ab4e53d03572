"""An ONNX file as a program: comes in as a parsed model with inputs, goes out as operators of torch with constants.

Nothing in the file is executed. An operator that is not known here, and a loop, is refused by name.
"""
