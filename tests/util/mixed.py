"""A scenario of a user's with every kind of parameter, as the text of a module."""

MIXED = """
    from fedsim.space import Choice, Parameter, Space
    from fedsim.workload import Evaluation

    TOPS = {"hinge": 0.5, "log": 1.0, "squared": 0.2}

    class Mixed:
        direction = "maximize"
        space = Space((
            Parameter("C", 1e-4, 1e2, "log"),
            Choice("loss", list(TOPS)),
            Parameter("layers", 0, 2, integer=True),
            Choice("scaled", [True, False]),
            Choice("gamma", ["auto", 0.5, 1]),
            Parameter("units", 8, 128, "log", integer=True, levels=5),
        ))

        def __init__(self, agents: int = 3):
            self.agents = agents

        def objective(self, agent):
            return objective

    def objective(point, rng):
        kinds = [type(point[name]).__name__ for name in point]
        assert kinds[:4] == ["float", "str", "int", "bool"], kinds
        assert kinds[4] in ("str", "float", "int"), kinds
        assert point["units"] in (8, 16, 32, 64, 128), point
        value = TOPS[point["loss"]] - 0.1 * abs(point["layers"] - 1) + 0.1 * point["scaled"]
        return Evaluation(value + 0.01 * rng.normal(), value)
"""
