import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.ops.aten.log_sigmoid.default(x)
model, inputs = Model().eval(), (torch.tensor([-100.0]),)
import tract
exported = torch.export.export(model, inputs, strict=False)
torch.onnx.export(exported, dynamo=True, verbose=False).save("model.onnx")
runnable = tract.onnx().load("model.onnx").into_model().into_runnable()
actual = [torch.as_tensor(result.to_numpy()) for result in runnable.run([x.numpy() for x in inputs])]
expected = [model(*inputs)]
print("expected", expected, "actual", actual)
torch.testing.assert_close(actual, expected, rtol=0.0e+00, atol=1.8e-04, equal_nan=True)
