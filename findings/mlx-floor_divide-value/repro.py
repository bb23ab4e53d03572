import torch
class Model(torch.nn.Module):
    def forward(self, x, y):
        return torch.floor_divide(x, y)
model, inputs = Model().eval(), (torch.tensor([1.0]), torch.tensor([0.1]),)
import mlx.core as mx; from mlx import nn
mx.set_default_device(mx.cpu)
v0 = mx.array(inputs[0].tolist(), mx.float32)
v1 = mx.array(inputs[1].tolist(), mx.float32)
v2 = mx.floor_divide(v0, v1)
actual = [torch.tensor(v2.tolist(), dtype=torch.float32)]
expected = [model(*inputs)]
print("expected", expected, "actual", actual)
torch.testing.assert_close(actual, expected, rtol=1.4e-06, atol=0.0e+00, equal_nan=True)
