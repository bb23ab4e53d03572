import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.erf(x)
model, inputs = Model().eval(), (torch.tensor([0.0001]),)
import mlx.core as mx; from mlx import nn
mx.set_default_device(mx.cpu)
v0 = mx.array(inputs[0].tolist(), mx.float32)
v1 = mx.erf(v0)
actual = [torch.tensor(v1.tolist(), dtype=torch.float32)]
expected = [model(*inputs)]
print("expected", expected, "actual", actual)
torch.testing.assert_close(actual, expected, rtol=0.0e+00, atol=3.5e-10, equal_nan=True)
