"""Labelled sets in the layouts that people have, and every way in which labels do not match."""

from __future__ import annotations

from pathlib import Path

import pytest

from mindgap.errors import CorruptFile, UsageError
from mindgap.evaluation.dataset import list_samples


def image(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"not decoded here")


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    """Class folders as ImageNet has them."""
    for name in ("n01440764/b.JPEG", "n01440764/a.JPEG", "n01443537/c.jpeg", "n01443537/readme.txt"):
        image(tmp_path / "val" / name)
    return tmp_path / "val"


def test_class_folders_are_classes_in_sorted_order(folders: Path) -> None:
    data = list_samples(folders)
    assert data.files == ("n01440764/a.JPEG", "n01440764/b.JPEG", "n01443537/c.jpeg")
    assert data.labels == (0, 0, 1)
    assert data.classes == ("n01440764", "n01443537")


def test_folders_that_are_numbers_are_labels(tmp_path: Path) -> None:
    for number in (2, 10):
        image(tmp_path / str(number) / "a.png")
    assert list_samples(tmp_path).labels == (10, 2)  # the files are sorted by folder, the labels are the numbers


def test_a_list_of_classes_gives_their_order(folders: Path, tmp_path: Path) -> None:
    (tmp_path / "synsets.txt").write_text("n01484850 great white shark\nn01443537 goldfish\nn01440764 tench\n")
    assert list_samples(folders, classes=tmp_path / "synsets.txt").labels == (2, 2, 1)


@pytest.fixture
def flat(tmp_path: Path) -> Path:
    for number in range(1, 4):
        image(tmp_path / "flat" / f"ILSVRC2012_val_0000000{number}.JPEG")
    return tmp_path / "flat"


def test_a_line_per_image(flat: Path, tmp_path: Path) -> None:
    (tmp_path / "truth.txt").write_text("66\n971\n231\n")
    assert list_samples(flat, tmp_path / "truth.txt", first_label=1).labels == (65, 970, 230)


OFFICIAL = "490\n361\n171\n"
"""How ILSVRC2012_validation_ground_truth.txt begins."""


def test_imagenets_own_numbers_are_no_positions(flat: Path, tmp_path: Path) -> None:
    (tmp_path / "truth.txt").write_text(OFFICIAL)
    (tmp_path / "synsets.txt").write_text("n01751748 sea snake\nn09193705 alp\n")
    for classes in (None, tmp_path / "synsets.txt"):
        with pytest.raises(UsageError, match="ImageNet's own numbers") as error:
            list_samples(flat, tmp_path / "truth.txt", classes, first_label=1)
        assert "map_clsloc.txt" in str(error.value.hint)
    (tmp_path / "own.txt").write_text("n02119789 kit fox\nn02100735 English setter\n")  # the kit's own order
    assert list_samples(flat, tmp_path / "truth.txt", tmp_path / "own.txt", first_label=1).labels == (489, 360, 170)


def test_numbers_of_classes_are_mapped_to_the_order_of_the_synsets(flat: Path, tmp_path: Path) -> None:
    (tmp_path / "truth.txt").write_text(OFFICIAL)
    (tmp_path / "map_clsloc.txt").write_text(
        "n02119789 1 kit_fox\nn09193705 361 alp\nn01751748 490 sea_snake\nn02105855 171 Shetland_sheepdog\n"
    )
    found = list_samples(flat, tmp_path / "truth.txt", tmp_path / "map_clsloc.txt")
    assert found.labels == (0, 3, 1) and found.classes[0] == "n01751748"
    with pytest.raises(UsageError, match="--first-label is not for"):
        list_samples(flat, tmp_path / "truth.txt", tmp_path / "map_clsloc.txt", first_label=1)
    (tmp_path / "truth.txt").write_text("490\n361\n2\n")
    with pytest.raises(UsageError, match="has the label 2, and --classes has no class of that number"):
        list_samples(flat, tmp_path / "truth.txt", tmp_path / "map_clsloc.txt")
    (tmp_path / "twice.txt").write_text("n02119789 1\nn09193705 1\n")
    with pytest.raises(UsageError, match="two classes the same number"):
        list_samples(flat, tmp_path / "truth.txt", tmp_path / "twice.txt")


def test_lines_of_a_name_and_a_label(flat: Path, tmp_path: Path) -> None:
    names = [f"ILSVRC2012_val_0000000{number}" for number in (3, 1, 2)]
    (tmp_path / "val.txt").write_text("".join(f"{name}.JPEG {n}\n" for n, name in enumerate(names)))
    assert list_samples(flat, tmp_path / "val.txt").labels == (1, 2, 0)
    (tmp_path / "classes.txt").write_text("n1\nn2\nn3\n")
    rows = "".join(f"{name},n{n + 1} 10 20 30 40\n" for n, name in enumerate(names))
    (tmp_path / "solution.csv").write_text(f"ImageId,PredictionString\n{rows}")
    assert list_samples(flat, tmp_path / "solution.csv", tmp_path / "classes.txt").labels == (1, 2, 0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1\n2\n", "has 2 labels for 3 images"),
        ("a 1\nb 2\n", "has no label for ILSVRC2012_val_00000001.JPEG"),
        ("tench\ntench\ntench\n", "'tench', which is no number"),
        ("", "is empty"),
    ],
)
def test_labels_that_do_not_match(flat: Path, tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "truth.txt").write_text(text)
    with pytest.raises(UsageError, match=said):
        list_samples(flat, tmp_path / "truth.txt")


def test_labels_below_the_first(flat: Path, tmp_path: Path) -> None:
    (tmp_path / "truth.txt").write_text("0\n1\n2\n")
    with pytest.raises(UsageError, match="the smallest label is 0"):
        list_samples(flat, tmp_path / "truth.txt", first_label=1)


def test_a_file_of_labels_that_is_not_text(flat: Path, tmp_path: Path) -> None:
    (tmp_path / "truth.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CorruptFile, match="is not text"):
        list_samples(flat, tmp_path / "truth.txt")


def test_a_class_folder_without_files(folders: Path) -> None:
    (folders / "n09999999").mkdir()
    with pytest.raises(UsageError, match="n09999999 holds no images"):
        list_samples(folders)


def test_images_without_labels(flat: Path) -> None:
    with pytest.raises(UsageError, match="has no class folders") as error:
        list_samples(flat)
    assert error.value.cause == "its images have no labels"


def test_what_is_no_set(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no"):
        list_samples(tmp_path / "none")
    (tmp_path / "a.csv").write_text("")
    with pytest.raises(UsageError, match=r"a\.csv is no set of samples"):
        list_samples(tmp_path / "a.csv")


def test_a_class_twice_and_a_folder_that_is_none(folders: Path, tmp_path: Path) -> None:
    (tmp_path / "twice.txt").write_text("n01440764\nn01440764\n")
    with pytest.raises(UsageError, match="lists the class n01440764 twice"):
        list_samples(folders, classes=tmp_path / "twice.txt")
    (tmp_path / "few.txt").write_text("n01440764\n")
    with pytest.raises(UsageError, match="does not list the folder n01443537"):
        list_samples(folders, classes=tmp_path / "few.txt")


def test_a_limit_draws_from_all_and_again_the_same(tmp_path: Path) -> None:
    for number in range(40):
        image(tmp_path / str(number % 4) / f"{number}.png")
    drawn = list_samples(tmp_path, limit=20)
    assert drawn.chosen is not None and len(drawn.chosen) == 20
    assert {drawn.labels[sample] for sample in drawn.chosen} == {0, 1, 2, 3}
    assert list_samples(tmp_path, limit=20) == drawn
    assert list_samples(tmp_path, limit=20, seed=1).identity != drawn.identity
