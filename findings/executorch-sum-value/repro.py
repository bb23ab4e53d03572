import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.sum(x)
model, inputs = Model().eval(), (torch.full((832,), 0.1),)
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from executorch.runtime import Runtime
exported = torch.export.export(model, inputs, strict=False)
edge = to_edge_transform_and_lower(exported, partitioner=[], compile_config=EdgeCompileConfig(_check_ir_validity=False))
program = Runtime.get().load_program(edge.to_executorch().buffer)
method = program.load_method("forward")
actual = [torch.as_tensor(result).clone() for result in method.execute(list(inputs))]
expected = [model(*inputs)]
print("expected", expected, "actual", actual)
torch.testing.assert_close(actual, expected, rtol=0.0e+00, atol=6.4e-04, equal_nan=True)
