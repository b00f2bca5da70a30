"""Every agent tunes a linear classifier on its own share of scikit-learn's breast cancer data."""

from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fedsim.space import Choice, Parameter, Space


class Classifiers:
    """Accuracies by cross-validation."""

    space = Space(
        (
            Choice("loss", ["hinge", "log_loss", "perceptron"]),
            Parameter("alpha", 1e-6, 1.0, scale="log"),
            Parameter("epochs", 1, 20, integer=True),
            Choice("average", [True, False]),
        )
    )
    direction = "maximize"

    def __init__(self, agents: int = 5):
        self.agents = agents

    def objective(self, agent: int):
        """Return the agent's black box."""
        features, labels = load_breast_cancer(return_X_y=True)
        mine = slice(agent, None, self.agents)

        def accuracy(point, rng):
            model = SGDClassifier(
                loss=point["loss"],
                alpha=point["alpha"],
                max_iter=point["epochs"],
                average=point["average"],
                tol=None,
                random_state=int(rng.integers(2**31)),
            )
            steps = make_pipeline(StandardScaler(), model)
            return cross_val_score(steps, features[mine], labels[mine], cv=3).mean()

        return accuracy
