import torch
class Model(torch.nn.Module):
    def forward(self, x, y):
        return torch.kron(x, y)
model, inputs = Model().eval(), (torch.tensor([5], dtype=torch.int8), torch.tensor([-64], dtype=torch.int8),)
import openvino
converted = openvino.convert_model(torch.export.export(model, inputs, strict=False))
compiled = openvino.compile_model(converted, "CPU", {'INFERENCE_PRECISION_HINT': 'f32', 'INFERENCE_NUM_THREADS': 1})
actual = [torch.as_tensor(result) for result in compiled([x.numpy() for x in inputs]).values()]
expected = [model(*inputs)]
print("expected", expected, "actual", actual)
torch.testing.assert_close(actual, expected, rtol=2.7e-15, atol=0.0e+00, equal_nan=True)
