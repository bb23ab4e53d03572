import torch
class Model(torch.nn.Module):
    def forward(self, x, y, z):
        return torch.index_copy(x, -1, y, z)
model, inputs = Model().eval(), (torch.tensor([0.0]), torch.tensor([-1]), torch.tensor([0.0]),)
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from executorch.runtime import Runtime
exported = torch.export.export(model, inputs, strict=False)
edge = to_edge_transform_and_lower(exported, partitioner=[], compile_config=EdgeCompileConfig(_check_ir_validity=False))
program = Runtime.get().load_program(edge.to_executorch().buffer)
method = program.load_method("forward")
actual = [torch.as_tensor(result).clone() for result in method.execute(list(inputs))]
try: model(*inputs)
except Exception as error: raise AssertionError(f"gives {actual}, but torch refuses it: {error}") from None
