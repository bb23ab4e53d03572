import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.pow(x, 1)
model, inputs = Model().eval(), (torch.tensor([9223372036854775807]),)
import onnxruntime
exported = torch.export.export(model, inputs, strict=False)
proto = torch.onnx.export(exported, dynamo=True, verbose=False).model_proto
session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=['CPUExecutionProvider'])
feeds = dict(zip([i.name for i in session.get_inputs()], [x.numpy() for x in inputs]))
actual = [torch.as_tensor(result) for result in session.run(None, feeds)]
expected = [model(*inputs)]
print("expected", expected, "actual", actual)
torch.testing.assert_close(actual, expected, rtol=2.7e-15, atol=0.0e+00, equal_nan=True)
