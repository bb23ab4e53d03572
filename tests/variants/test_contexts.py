"""What an operator is exercised with: the classes of values that really reach it, lengths, and shared memory."""

from __future__ import annotations

from mindgap.program.graph import Input, Node, Program, Ref
from mindgap.program.made import Made, Planted, Recipe, Whole
from mindgap.records.tensors import TensorMeta
from mindgap.variants.contexts import calls_of, contexts_of
from mindgap.variants.special import special_values
from mindgap.variants.values import contiguous_stride

PLAIN = Made(0, "fragment", -1.0, 1.0)


def meta(dtype: str = "float32", shape: tuple[int, ...] = (16,)) -> TensorMeta:
    return TensorMeta(shape, dtype, contiguous_stride(shape))


def planted(values: str, dtype: str = "float32") -> Planted:
    return Planted(PLAIN, 1, special_values(values, dtype), 2)


def program(nodes: list[Node], *given: tuple[TensorMeta, Recipe]) -> Program:
    inputs = tuple(Input(number, f"x{number}", item) for number, (item, _) in enumerate(given))
    return Program("p", inputs, (), tuple(nodes), (Ref(nodes[-1].id),), tuple(recipe for _, recipe in given))


def told(made: Program, values: str = "ordinary") -> dict[str, list[list[str]]]:
    """By operator: length, memory and class of values of each of its contexts."""
    found: dict[str, list[list[str]]] = {}
    for context in contexts_of(made, values):
        found.setdefault(context.partition(" ")[0], []).append(context.partition(" | ")[2].split(" ", 5)[3:])
    return found


def test_a_class_of_values_labels_only_what_it_reaches() -> None:
    nodes = [
        Node(2, "aten.sin.default", (Ref(0),), meta=meta()),
        Node(3, "aten.cos.default", (Ref(1),), meta=meta()),
        Node(4, "aten.add.Tensor", (Ref(2), Ref(3)), meta=meta()),
    ]
    found = told(program(nodes, (meta(), planted("nan")), (meta(), planted("zeros"))), "apart")
    assert found["aten.sin.default"] == [["even", "own", "nan"]]
    assert found["aten.cos.default"] == [["even", "own", "zeros"]]
    assert [values for *_, values in found["aten.add.Tensor"]] == ["nan", "zeros"]


def test_a_class_ends_where_its_dtype_does() -> None:
    nodes = [
        Node(1, "aten.isnan.default", (Ref(0),), meta=meta("bool")),
        Node(2, "aten.logical_not.default", (Ref(1),), meta=meta("bool")),
    ]
    found = told(program(nodes, (meta(), planted("nan"))))
    assert found["aten.isnan.default"][0][2] == "nan" and found["aten.logical_not.default"][0][2] == "ordinary"


def test_negative_operands_of_an_integer_division_ties_and_stray_positions_have_a_class() -> None:
    whole = meta("int32")
    divided = [Node(1, "aten.floor_divide.default", (Ref(0), Ref(0)), meta=whole)]
    negatives = Planted(Whole(0, "fragment", -9, 10), 1, special_values("negatives", "int32"), 2)
    assert told(program(divided, (whole, negatives)))["aten.floor_divide.default"] == [["even", "shared", "negatives"]]
    sorted_ = [Node(1, "aten.msort.default", (Ref(0),), meta=meta())]
    assert told(program(sorted_, (meta(), Whole(0, "fragment", -2, 3))))["aten.msort.default"][0][2] == "ties"
    picked = [Node(2, "aten.take.default", (Ref(0), Ref(1)), meta=meta())]
    stray = Planted(Whole(0, "index", 0, 16), 1, (-1,), 2)
    made = program(picked, (meta(), PLAIN), (meta("int64"), stray))
    assert told(made, "negative positions")["aten.take.default"][0][2] == "negative positions"


def test_odd_lengths_are_told_from_even_ones() -> None:
    nodes = [Node(1, "aten.sin.default", (Ref(0),), meta=meta(shape=(17,)))]
    assert told(program(nodes, (meta(shape=(17,)), PLAIN)))["aten.sin.default"] == [["odd", "own", "ordinary"]]


def test_a_write_that_other_names_see_is_told() -> None:
    nodes = [
        Node(1, "aten.view.default", (Ref(0), [16]), meta=meta()),
        Node(2, "aten.add_.Scalar", (Ref(1), 1), meta=meta()),
        Node(3, "aten.mul.Tensor", (Ref(0), Ref(1)), meta=meta()),
    ]
    found = told(program(nodes, (meta(), PLAIN)))
    assert found["aten.add_.Scalar"][0][1] == "seen" and found["aten.mul.Tensor"][0][1] == "shared"
    alone = [Node(1, "aten.add_.Scalar", (Ref(0), 1), meta=meta())]
    assert told(program(alone, (meta(), PLAIN)))["aten.add_.Scalar"][0][1] == "own"


def test_what_is_overwritten_takes_over_the_class() -> None:
    nodes = [
        Node(2, "aten.copy_.default", (Ref(0), Ref(1)), meta=meta()),
        Node(3, "aten.exp.default", (Ref(0),), meta=meta()),
    ]
    found = told(program(nodes, (meta(), PLAIN), (meta(), planted("infinities"))))
    assert found["aten.exp.default"][0][2] == "infinities"


def test_calls_of_real_programs_are_told_without_values() -> None:
    nodes = [Node(1, "aten.sin.default", (Ref(0),), meta=meta(shape=(17,)))]
    assert calls_of(program(nodes, (meta(shape=(17,)), PLAIN))) == ("aten.sin.default float32 | 1 dense % ",)
