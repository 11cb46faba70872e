"""Models among a server call's arguments, at any depth."""

from fedtempo.federation import Model
from fedtempo.runtime.handles import ServerCall, split


def test_models_are_extracted_in_order_and_replaced_in_place():
    a, b, c, d = (Model(version, None) for version in range(4))
    models = []
    fill = split({"deep": {"pair": (a, b)}, "mixed": [1, c, "text"], "one": d, "weights": (1, 2.0), "none": []}, models)
    assert models == [a, b, c, d]
    built = fill("abcd")
    assert built == {
        "deep": {"pair": ["a", "b"]},
        "mixed": [1, "c", "text"],
        "one": "d",
        "weights": [1, 2.0],
        "none": [],
    }


def test_a_server_call_passes_vectors_in_place_of_models():
    a, b = Model(0, None), Model(1, None)

    def look(*positional, **named):
        return positional, named

    call = ServerCall(look, [a, b], {"again": {"deep": [a]}, "number": 3})
    assert call.models == [a, b, a]
    assert call("A", "B", "C") == (("A", "B"), {"again": {"deep": ["C"]}, "number": 3})
    assert call.__qualname__ == look.__qualname__


def test_a_model_passed_twice_is_extracted_twice():
    model = Model(0, None)
    call = ServerCall(max, [model], {"others": [model, model]})
    assert call.models == [model] * 3
