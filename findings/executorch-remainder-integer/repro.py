import torch
class Model(torch.nn.Module):
    def forward(self, x, y):
        return torch.remainder(x, y)
model, inputs = Model().eval(), (torch.tensor([-7]), torch.tensor([3]),)
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from executorch.runtime import Runtime
exported = torch.export.export(model, inputs, strict=False)
edge = to_edge_transform_and_lower(exported, partitioner=[], compile_config=EdgeCompileConfig(_check_ir_validity=False))
program = Runtime.get().load_program(edge.to_executorch().buffer)
method = program.load_method("forward")
actual = [torch.as_tensor(result).clone() for result in method.execute(list(inputs))]
expected = [model(*inputs)]
print("expected", expected, "actual", actual)
torch.testing.assert_close(actual, expected, rtol=2.7e-15, atol=0.0e+00, equal_nan=True)
