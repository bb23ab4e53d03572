"""Where models come from: one file or folder per library or file format.

In: a spec (`timm:resnet18`, `model.pt2`). Out: a model with inputs that it accepts. A module registers itself with
`@register`; `registry.discover` imports every module below this folder, so a new source needs no other change.
"""
