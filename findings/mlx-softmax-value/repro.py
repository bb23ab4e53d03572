import torch
import torch.nn.functional as F
class Model(torch.nn.Module):
    def forward(self, x):
        return F.softmax(x, dim=0)
model, inputs = Model().eval(), (torch.full((2096,), 0.0, dtype=torch.float16),)
import mlx.core as mx; from mlx import nn
mx.set_default_device(mx.cpu)
v0 = mx.array(inputs[0].tolist(), mx.float16)
v1 = mx.softmax(v0, axis=0)
actual = [torch.tensor(v1.tolist(), dtype=torch.float16)]
expected = [model(*inputs)]
print("expected", expected, "actual", actual)
torch.testing.assert_close(actual, expected, rtol=1.2e-02, atol=0.0e+00, equal_nan=True)
