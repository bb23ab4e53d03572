import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.sum(x)
model, inputs = Model().eval(), (torch.full((832,), 0.1),)
import mlx.core as mx; from mlx import nn
mx.set_default_device(mx.cpu)
v0 = mx.array(inputs[0].tolist(), mx.float32)
v1 = mx.sum(v0, axis=(0, ), keepdims=False)
actual = [torch.tensor(v1.tolist(), dtype=torch.float32)]
expected = [model(*inputs)]
print("expected", expected, "actual", actual)
torch.testing.assert_close(actual, expected, rtol=0.0e+00, atol=6.4e-04, equal_nan=True)
