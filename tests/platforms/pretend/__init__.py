"""A real device of torch beside the CPU, built by the test: the mechanism of torch_npu and other vendors."""
