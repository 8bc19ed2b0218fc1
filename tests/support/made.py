"""Functions of robots that tests ask for again and again: a robot with every kind of joint takes a second each time."""

from collections import OrderedDict

_KEPT = OrderedDict()


def made(build, model, *names):
    """``build(model, *names)``, which is kept as long as the model is one of the last few."""
    key = (build, id(model), *names)
    if key not in _KEPT:
        _KEPT[key] = model, build(model, *names)  # with the model, so that no other takes over its id
        if len(_KEPT) > 8:
            _KEPT.popitem(last=False)
    return _KEPT[key][1]
