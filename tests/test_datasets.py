from __future__ import annotations

import gzip
import struct
from urllib.error import URLError

import numpy as np
import pandas as pd
import pytest
from scipy.io import loadmat, savemat
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils import Bunch

from skdpbayes import datasets
from skdpbayes.datasets import _adult, _categorical, _fars, _mnist

ADULT = """39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, \
Male, 2174, 0, 40, United-States, <=50K
28, ?, 300000, Masters, 14, Married-civ-spouse, ?, Wife, Black, Female, 0, 1902, 40, ?, >50K
17, Private, 1600000, 11th, 7, Never-married, Sales, Own-child, Other, Female, 0, 0, 1, Laos, <=50K

"""
ADULT_TEST = "|1x3 Cross validator\n" + ADULT.replace("50K\n", "50K.\n")
FARS = """case,state,census_region,year,month,day,month_index,type_man_coll,category_harm_ev,\
lgt_cond,weather,drunk_driver,multi_fatal,pedestrian,multi_vehicle,dark,adverse_weather,work_zone,\
intersection,on_nhs,weekend
1,1,South,2013,1,6,0,0,42,2,10,0,1,0,0,1,0,0,0,1,1
2,56,West,2016,12,3,47,99,12,3,1,1,0,0,1,1,0,0,1,1,0
3,9,Northeast,2014,2,3,13,10,99,9,99,1,0,0,1,0,1,0,1,1,0
"""
MUSHROOM = """p,x,s,n,t,p,f,c,n,k,e,e,s,s,w,w,p,w,o,p,k,s,u
e,x,s,y,t,a,f,c,b,k,e,?,s,s,w,w,p,w,o,p,n,n,g
"""
VOTES = """republican,n,y,n,y,y,y,n,n,n,y,?,y,y,y,n,y
democrat,?,y,y,?,y,y,n,n,n,n,y,n,y,y,n,n
"""
ABALONE = """M,0.455,0.365,0.095,0.514,0.2245,0.101,0.15,15
I,0.33,0.255,1.13,0.205,0.0895,0.0395,0.055,7
"""
SMS = 'ham\tOk lar... "Joking" wif u\nspam\tFREE\tentry, £100\n'


def idx(array):
    header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.tobytes()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "adult.data.gz").write_bytes(gzip.compress(ADULT.encode()))
    (tmp_path / "adult.test").write_text(ADULT_TEST)
    (tmp_path / "abalone.data").write_text(ABALONE)
    (tmp_path / "agaricus-lepiota.data").write_text(MUSHROOM)
    (tmp_path / "house-votes-84.data").write_text(VOTES)
    (tmp_path / "SMSSpamCollection").write_text(SMS, encoding="utf-8")
    (tmp_path / "fars").mkdir()
    (tmp_path / "fars/fars_2013_2016_tidy.csv.gz").write_bytes(gzip.compress(FARS.encode()))
    (tmp_path / "mnist").mkdir()
    images = np.random.default_rng(0).integers(0, 256, (5, 28, 28), dtype=np.uint8)
    digits = np.array([3, 1, 4, 1, 5], dtype=np.uint8)
    (tmp_path / "mnist/train-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(images)))
    (tmp_path / "mnist/train-labels-idx1-ubyte").write_bytes(idx(digits))
    (tmp_path / "fashion-mnist").mkdir()
    (tmp_path / "fashion-mnist/train-images-idx3-ubyte").write_bytes(idx(255 - images))
    (tmp_path / "fashion-mnist/train-labels-idx1-ubyte").write_bytes(idx(digits))
    (tmp_path / "svhn").mkdir()
    pictures = np.random.default_rng(1).integers(0, 256, (32, 32, 3, 4), dtype=np.uint8)
    numbers = np.array([[10], [1], [9], [10]], dtype=np.uint8)
    savemat(tmp_path / "svhn/train_32x32.mat", {"X": pictures, "y": numbers}, do_compression=True)
    return tmp_path


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    """No test reaches a real folder or the network."""

    def fail(**_):
        raise URLError("no network")

    monkeypatch.delenv("SKDPBAYES_DATA", raising=False)
    monkeypatch.setattr("sklearn.datasets.fetch_openml", fail)


def serve(monkeypatch, data_id, data, target):
    def fetch(**kwargs):
        assert kwargs == {"data_id": data_id, "as_frame": True}
        return Bunch(data=data, target=target)

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)


LOADERS = [
    datasets.load_abalone,
    datasets.load_adult,
    datasets.load_fars,
    datasets.load_fashion_mnist,
    datasets.load_house_votes,
    datasets.load_mnist,
    datasets.load_mushroom,
    datasets.load_sms_spam,
    datasets.load_svhn,
]


@pytest.mark.parametrize("loader", LOADERS)
def test_loaders_agree_on_where_to_look_and_what_to_return(loader, folder, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"data_home.*SKDPBAYES_DATA"):
        loader()
    with pytest.raises(FileNotFoundError, match="data_home="):
        loader(folder / "elsewhere")
    given = loader(folder)
    monkeypatch.setenv("SKDPBAYES_DATA", str(folder))
    found = loader()
    np.testing.assert_array_equal(given.data, found.data)
    X, y = loader(return_X_y=True)
    np.testing.assert_array_equal(X, found.data)
    np.testing.assert_array_equal(y, found.target)
    for key in ("feature_names", "target_names", "bounds", "categories"):
        assert key in found
    assert "License" in found.DESCR
    assert "Cite" in found.DESCR
    monkeypatch.setenv("SKDPBAYES_DATA", str(folder / "elsewhere"))
    with pytest.raises(FileNotFoundError, match=r"data_home.*SKDPBAYES_DATA"):
        loader()


def test_adult_raw_by_hand(folder):
    adult = datasets.load_adult(folder, encoding="raw")
    assert adult.data.shape == (3, 108)
    np.testing.assert_array_equal(adult.target, [0, 1, 0])
    row = dict(zip(adult.feature_names, adult.data[0], strict=True))
    on = {
        "age": (39 - 17) / 73,
        "fnlwgt": 77516 / 1.5e6,
        "education-num": 12 / 15,
        "capital-gain": 2174 / 99999,
        "hours-per-week": 39 / 98,
        "workclass_State-gov": 1,
        "education_Bachelors": 1,
        "marital-status_Never-married": 1,
        "occupation_Adm-clerical": 1,
        "relationship_Not-in-family": 1,
        "race_White": 1,
        "sex_Male": 1,
        "native-country_United-States": 1,
    }
    length = np.sqrt(sum(value**2 for value in on.values()))
    for name, value in row.items():
        assert value == pytest.approx(on.get(name, 0.0) / length), name
    third = dict(zip(adult.feature_names, adult.data[2], strict=True))
    assert third["fnlwgt"] == pytest.approx(third["sex_Female"])  # clipped to its public bound
    second = dict(zip(adult.feature_names, adult.data[1], strict=True))
    for name in ("workclass_?", "occupation_?", "native-country_?"):
        assert second[name] > 0
    assert (np.linalg.norm(adult.data, axis=1) <= 1).all()


def test_adult_log_changes_two_columns(folder):
    raw = datasets.load_adult(folder, encoding="raw").data
    log = datasets.load_adult(folder, encoding="log")
    scale = log.data[:, 6:].max(axis=1, keepdims=True) / raw[:, 6:].max(axis=1, keepdims=True)
    gain, loss = (log.feature_names.index(name) for name in ("capital-gain", "capital-loss"))
    same = [k for k in range(108) if k not in (gain, loss)]
    np.testing.assert_allclose(log.data[:, same], (raw * scale)[:, same])
    unit = log.data[:, 6:].max(axis=1)
    assert log.data[0, gain] / unit[0] == pytest.approx(np.log1p(2174) / np.log1p(99999))
    assert log.data[1, loss] / unit[1] == pytest.approx(np.log1p(1902) / np.log1p(4356))


def test_adult_bins(folder):
    adult = datasets.load_adult(folder, encoding="bins")
    assert adult.data.dtype == np.int64
    assert adult.feature_names == _adult.COLUMNS
    named = {
        name: [adult.categories[name][code] for code in adult.data[:, k]]
        for k, name in enumerate(adult.feature_names)
    }
    assert named["age"] == ["[35, 40)", "[25, 30)", "< 20"]
    assert named["fnlwgt"] == ["< 100000", ">= 300000", ">= 300000"]
    assert named["capital-gain"] == ["[1, 2500)", "< 1", "< 1"]
    assert named["hours-per-week"] == ["[40, 41)", "[40, 41)", "< 20"]
    assert named["workclass"] == ["State-gov", "?", "Private"]
    assert adult.n_categories.tolist() == [len(adult.categories[c]) for c in adult.feature_names]
    unit = datasets.load_adult(folder, encoding="onehot_bins")
    assert unit.data.shape == (3, adult.n_categories.sum())
    np.testing.assert_allclose(np.linalg.norm(unit.data, axis=1), 1.0)
    encoder = OneHotEncoder(categories=[range(k) for k in adult.n_categories], sparse_output=False)
    np.testing.assert_allclose(unit.data * np.sqrt(14), encoder.fit_transform(adult.data))


def test_adult_table_and_test_file(folder):
    table = datasets.load_adult(folder, encoding=None, as_frame=True)
    assert table.data.loc[1, "occupation"] == "?"
    assert table.data["age"].dtype == np.float64
    assert list(table.data.columns) == _adult.COLUMNS
    plain = datasets.load_adult(folder, encoding=None)
    assert plain.data.dtype == object
    np.testing.assert_array_equal(plain.data, table.data.to_numpy(dtype=object))
    test = datasets.load_adult(folder, encoding=None, split="test")
    np.testing.assert_array_equal(plain.data, test.data)
    np.testing.assert_array_equal(plain.target, test.target)


@pytest.mark.parametrize("test_first", [True, False])
def test_adult_from_openml(folder, monkeypatch, test_first):
    table = datasets.load_adult(folder, encoding=None, as_frame=True).data.replace("?", np.nan)
    categorical = list(_adult.CATEGORIES)
    n = {"test": 16_281, "train": 32_561}
    parts = {}
    for split, first in (("test", (25, 226_802)), ("train", (39, 77_516))):
        part = table.iloc[np.arange(n[split]) % 3].reset_index(drop=True)
        part.loc[0, ["age", "fnlwgt"]] = first
        part["hours-per-week"] = 30.0 if split == "test" else 50.0
        parts[split] = part
    order = ["test", "train"] if test_first else ["train", "test"]
    data = pd.concat([parts[k] for k in order], ignore_index=True)
    data = data.astype(dict.fromkeys(categorical, "category"))
    target = pd.Series(np.where(data["education"] == "Masters", ">50K", "<=50K"), dtype="category")
    serve(monkeypatch, 1590, data, target)
    for split, hours in (("train", 50.0), ("test", 30.0)):
        adult = datasets.load_adult(encoding=None, as_frame=True, split=split)
        assert len(adult.data) == n[split]
        assert (adult.data["hours-per-week"] == hours).all()
        assert adult.data.loc[1, "workclass"] == "?"
        assert adult.target[:3].tolist() == [0, 1, 0]
    serve(monkeypatch, 1590, data.iloc[1:], target.iloc[1:])
    with pytest.raises(ValueError, match="split cannot be told"):
        datasets.load_adult()


def test_adult_errors(folder):
    with pytest.raises(ValueError, match="split must be one of"):
        datasets.load_adult(folder, split="all")
    with pytest.raises(ValueError, match="encoding, unless None, must be one of"):
        datasets.load_adult(folder, encoding="hot")
    (folder / "adult.test").write_text(ADULT.replace("Laos", "Atlantis"))
    with pytest.raises(ValueError, match="column 'native-country' holds 'Atlantis'"):
        datasets.load_adult(folder, split="test")
    (folder / "adult.test").write_text("1, 2, 3\n")
    with pytest.raises(ValueError, match="3 fields, expected 15"):
        datasets.load_adult(folder, split="test")
    (folder / "adult.test").write_text("\n")
    with pytest.raises(ValueError, match="no records"):
        datasets.load_adult(folder, split="test")


def test_abalone(folder, monkeypatch):
    local = datasets.load_abalone(folder)
    assert local.data.shape == (2, 10)
    assert local.target.tolist() == [15, 7]
    names = local.feature_names
    second = dict(zip(names, local.data[1], strict=True))
    assert second["height"] == pytest.approx(second["sex_I"])  # clipped to its public bound
    assert second["length"] == pytest.approx(0.33 * second["sex_I"])
    assert datasets.load_abalone(folder, target="old").target.tolist() == [1, 0]
    frame = datasets.load_abalone(folder, encoding=None, as_frame=True)
    target = pd.Series(["15", "7"], dtype="category")
    serve(monkeypatch, 183, frame.data.astype({"sex": "category"}), target)
    fetched = datasets.load_abalone()
    np.testing.assert_array_equal(fetched.data, local.data)
    np.testing.assert_array_equal(fetched.target, local.target)
    serve(monkeypatch, 183, frame.data.iloc[:, 1:], target)
    with pytest.raises(ValueError, match="7 columns where 8"):
        datasets.load_abalone()


@pytest.mark.parametrize(
    ("loader", "data_id", "target"),
    [
        (datasets.load_mushroom, 24, [1, 0]),
        (datasets.load_house_votes, 56, [1, 0]),
    ],
)
def test_categorical_sets(loader, data_id, target, folder, monkeypatch):
    codes = loader(folder)
    letters = loader(folder, encoding=None, as_frame=True)
    assert codes.target.tolist() == target
    assert (codes.data < codes.n_categories).all()
    for k, name in enumerate(codes.feature_names):
        labels = np.array(codes.categories[name])
        np.testing.assert_array_equal(labels[codes.data[:, k]], letters.data[name])
        assert codes.bounds[name] == (0, len(labels) - 1)
    assert "?" in letters.data.to_numpy()
    short = {24: ["e", "p"], 56: ["democrat", "republican"]}[data_id]
    served = pd.Series([short[k] for k in target], dtype="category")
    serve(monkeypatch, data_id, letters.data.replace("?", np.nan).astype("category"), served)
    fetched = loader()
    np.testing.assert_array_equal(fetched.data, codes.data)
    np.testing.assert_array_equal(fetched.target, codes.target)


def test_sms(folder):
    sms = datasets.load_sms_spam(folder)
    assert sms.data.tolist() == ['Ok lar... "Joking" wif u', "FREE\tentry, £100"]
    assert sms.target.tolist() == [0, 1]
    (folder / "SMSSpamCollection").write_text("ham no tab\n")
    with pytest.raises(ValueError, match="record 1: no tab"):
        datasets.load_sms_spam(folder)


def test_mnist(folder, monkeypatch):
    raw = datasets.load_mnist(folder, scale=False)
    assert raw.data.dtype == np.uint8
    assert raw.bounds == (0.0, 255.0)
    assert raw.target.tolist() == [3, 1, 4, 1, 5]
    unit = datasets.load_mnist(folder)
    assert unit.data.dtype == np.float32
    assert unit.data_norm == 28.0
    np.testing.assert_allclose(unit.data, raw.data / 255, rtol=1e-6)
    clipped = datasets.load_mnist(folder, norm=2.0)
    lengths = np.linalg.norm(clipped.data.astype(float), axis=1)
    assert clipped.data_norm == 2.0
    assert (lengths <= 2.0).all()
    np.testing.assert_allclose(lengths, 2.0, rtol=1e-5)
    with pytest.raises(ValueError, match="needs scale=True"):
        datasets.load_mnist(folder, scale=False, norm=1.0)
    monkeypatch.setattr(_mnist, "_N_TRAIN", 3)
    serve(monkeypatch, 554, pd.DataFrame(raw.data), pd.Series(raw.target.astype(str)))
    np.testing.assert_array_equal(datasets.load_mnist(scale=False).data, raw.data[:3])
    np.testing.assert_array_equal(datasets.load_mnist(split="test").target, [1, 5])


def test_fashion_mnist_is_read_like_mnist_from_its_own_folder(folder, monkeypatch):
    digits, clothes = (
        loader(folder, scale=False) for loader in (datasets.load_mnist, datasets.load_fashion_mnist)
    )
    np.testing.assert_array_equal(clothes.data, 255 - digits.data)
    assert clothes.target_names[9] == "Ankle boot"
    monkeypatch.setattr(_mnist, "_N_TRAIN", 3)
    serve(monkeypatch, 40996, pd.DataFrame(clothes.data), pd.Series(clothes.target.astype(str)))
    np.testing.assert_array_equal(
        datasets.load_fashion_mnist(split="test", scale=False).data, clothes.data[3:]
    )


def test_svhn(folder):
    raw = datasets.load_svhn(folder, scale=False)
    with open(folder / "svhn/train_32x32.mat", "rb") as file:
        content = loadmat(file)
    assert raw.data.shape == (4, 3072)
    assert raw.target.tolist() == [0, 1, 9, 0]
    np.testing.assert_array_equal(raw.data.reshape(4, *raw.image_shape)[2], content["X"][..., 2])
    assert raw.feature_names[3 * (2 * 32 + 5) + 1] == "pixel2_5_g"
    unit = datasets.load_svhn(folder)
    assert unit.data.dtype == np.float32
    assert unit.bounds == (0.0, 1.0)
    np.testing.assert_allclose(unit.data, raw.data / 255, rtol=1e-6)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"X": np.zeros((32, 32, 3, 2), np.uint8)}, "and their labels"),
        ({"X": np.zeros((2, 32, 32, 3), np.uint8), "y": np.ones((3, 1))}, "32 x 32 x 3"),
        ({"X": np.zeros((32, 32, 3, 2), np.uint8), "y": np.ones((3, 1))}, "for every image"),
        ({"X": np.zeros((32, 32, 3, 2), np.uint8), "y": np.zeros((2, 1))}, "from 1 to 10"),
    ],
)
def test_svhn_damaged_files(folder, content, message):
    savemat(folder / "svhn/train_32x32.mat", content)
    with pytest.raises(ValueError, match=message):
        datasets.load_svhn(folder)


def test_mnist_damaged_files(folder):
    labels = folder / "mnist/train-labels-idx1-ubyte"
    content = labels.read_bytes()
    labels.write_bytes(content[:-1])
    with pytest.raises(ValueError, match="cut short"):
        datasets.load_mnist(folder)
    labels.write_bytes(idx(np.zeros(4, dtype=np.uint8)))
    with pytest.raises(ValueError, match="same number of records"):
        datasets.load_mnist(folder)
    labels.write_bytes(b"PNG!")
    with pytest.raises(ValueError, match="not an idx file"):
        datasets.load_mnist(folder)


def test_fars(folder):
    fars = datasets.load_fars(folder)
    assert fars.n_categories.tolist() == [11, 56, 2, 2, 2]
    assert fars.times.tolist() == [0, 47, 13]
    assert (fars.n_times, fars.time_names[13]) == (48, "2014-02")
    assert [fars.sequence_names[g] for g in fars.sequences] == ["Alabama", "Wyoming", "Connecticut"]
    assert fars.target is None
    named = [fars.categories["category_harm_ev"][code] for code in fars.data[:, 1]]
    assert named == ["Tree (Standing Only)", "Motor Vehicle In-Transport", "Reported as Unknown"]
    np.testing.assert_array_equal(fars.source_codes["type_man_coll"][fars.data[:, 0]], [0, 99, 10])
    regions = datasets.load_fars(folder, sequences="region", fields=["dark"], target="drunk_driver")
    assert [regions.sequence_names[g] for g in regions.sequences] == ["South", "West", "Northeast"]
    assert regions.data.tolist() == [[1], [1], [0]]
    assert regions.target.tolist() == [0, 1, 1]


def test_fars_code_book():
    assert len(_fars.STATES) == 51
    assert {region for _, region in _fars.STATES.values()} == set(_fars.REGIONS)
    for table in (_fars.CODED["category_harm_ev"], _fars.CODED["type_man_coll"]):
        assert list(table) == sorted(table)  # positions are found by bisection


def test_fars_errors(folder):
    with pytest.raises(ValueError, match="fields must be distinct names"):
        datasets.load_fars(folder, fields=["dark", "color"])
    with pytest.raises(ValueError, match="target must be one of"):
        datasets.load_fars(folder, fields=["dark"], target="dark")
    with pytest.raises(ValueError, match="sequences must be one of"):
        datasets.load_fars(folder, sequences="county")
    path = folder / "fars/fars_2013_2016_tidy.csv"
    path.write_text(FARS.replace("13,10,99,9", "13,10,77,9"))
    with pytest.raises(ValueError, match="'category_harm_ev' holds 77"):
        datasets.load_fars(folder)
    path.write_text(FARS.replace("47,99", "48,99"))
    with pytest.raises(ValueError, match="month_index must lie in"):
        datasets.load_fars(folder)
    path.write_text(FARS.replace("month_index", "month_number"))
    with pytest.raises(ValueError, match="no columns"):
        datasets.load_fars(folder)


def test_code_books_list_each_category_once():
    for labels in [*_adult.CATEGORIES.values(), *_categorical.MUSHROOM_CATEGORIES.values()]:
        assert len(set(labels)) == len(labels)
    assert sum(map(len, _adult.CATEGORIES.values())) + len(_adult.NUMERIC_BOUNDS) == 108
