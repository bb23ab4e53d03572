import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.ops.aten.mul.Scalar(x, 1e-10)
model, inputs = Model().eval(), (torch.tensor([float("-inf")], dtype=torch.float16),)
import jax; jax.config.update("jax_enable_x64", True)
known = torch._ops.OpOverloadPacket.__getattr__  # torchax names overloads that newer versions of torch removed
torch._ops.OpOverloadPacket.__getattr__ = lambda op, name: known(op, name) if name[0] == "_" or name in op.overloads() else name
import torchax.export; torch._ops.OpOverloadPacket.__getattr__ = known
weights, function = torchax.export.exported_program_to_jax(torch.export.export(model, inputs, strict=False))
results = jax.jit(function)(weights, tuple(jax.numpy.asarray(x.numpy()) for x in inputs))
actual = [torch.tensor(jax.device_get(result)) for result in jax.tree_util.tree_leaves(results)]
expected = [model(*inputs)]
print("expected", expected, "actual", actual)
torch.testing.assert_close(actual, expected, rtol=1.2e-02, atol=0.0e+00, equal_nan=True)
