"""Networks small enough to look at every combination of states, and what is true about them."""

import itertools

import numpy as np

from everhold_privacy.networks.models import BayesianNetwork, MarkovNetwork

EPSILONS = np.concatenate([[0.0], np.geomspace(1e-3, 8.0, 40)])


def joint_law(network):
    """Pairs (states, probability) by multiplying the tables, one combination at a time."""
    combinations = list(itertools.product(*map(range, network.states)))
    weights = np.ones(len(combinations))
    for scope, table in zip(network.scopes, network.table_of, strict=True):
        weights *= [network.tables[table][tuple(x[node] for node in scope)] for x in combinations]
    return np.array(combinations), weights / weights.sum()


def counting_mechanism(level):
    """Two-sided geometric noise on the sum of the rows' states: as much as `level` per row allows."""

    def kernel(rows):
        sums = (rows > 0).sum(axis=1)
        places = np.arange(-30, rows.shape[1] + 31)
        weights = np.exp(-level * np.abs(places[None, :] - sums[:, None]))
        ends = np.exp(-level) / (1.0 - np.exp(-level))  # all that lies beyond is put on the ends
        weights[:, 0] *= 1.0 + ends
        weights[:, -1] *= 1.0 + ends
        return weights / weights.sum(axis=1, keepdims=True)

    return kernel


def randomised_response(level):
    """Every row tells whether its state is 0, with odds e^level of the truth."""
    truth = 1.0 / (1.0 + np.exp(-level))

    def kernel(rows):
        said = np.array(list(itertools.product([0, 1], repeat=rows.shape[1])))
        same = ((rows > 0)[:, None, :] == said[None, :, :]).sum(axis=2)
        return truth**same * (1.0 - truth) ** (rows.shape[1] - same)

    return kernel


def true_leak(network, kernel, epsilons=EPSILONS):
    """The leakage about one row averaged over rows, by its definition in S1."""
    combinations, law = joint_law(network)
    rows = [node for node in range(len(network.names)) if node not in network.latent]
    transcript = kernel(combinations[:, rows])
    total = np.zeros(len(epsilons))
    for row in rows:
        marginal = np.array([law[combinations[:, row] == x].sum() for x in range(network.states[row])])
        given = [
            law[combinations[:, row] == x] @ transcript[combinations[:, row] == x] / p if p > 0 else None
            for x, p in enumerate(marginal)
        ]
        for x, y in itertools.product(range(len(marginal)), repeat=2):
            if marginal[x] > 0 and marginal[y] > 0:
                excess = given[x][None, :] - np.exp(epsilons)[:, None] * given[y][None, :]
                total += marginal[x] * marginal[y] * np.maximum(excess, 0.0).sum(axis=1)
    return total / len(rows)


def excess_of_tails(network, effective_rows, scores):
    """By how much ``P[|f - E f| >= a]`` exceeds ``2 exp(-2 n_eff a^2)`` at most, for the average of the given scores.

    Scores have shape (rows, states) with values in [0, 1].
    """
    combinations, law = joint_law(network)
    rows = [node for node in range(len(network.names)) if node not in network.latent]
    values = np.mean([scores[k][combinations[:, node]] for k, node in enumerate(rows)], axis=0)
    away = np.abs(values - law @ values)
    levels = np.unique(away)
    tails = np.array([law[away >= level].sum() for level in levels])
    return float(np.max(tails - 2.0 * np.exp(-2.0 * effective_rows * levels**2)))


def random_bayesian(random, count, *, most_parents, most_states=3, zeros=False):
    nodes = {}
    states = random.integers(2, most_states + 1, size=count)
    for node in range(count):
        number = int(random.integers(0, min(most_parents, node) + 1))
        parents = random.choice(node, size=number, replace=False) if number else []
        table = random.dirichlet(np.full(states[node], random.choice([0.5, 3.0])), size=tuple(states[list(parents)]))
        if zeros and random.random() < 0.3:
            table[..., 0] = 0.0
            table /= table.sum(axis=-1, keepdims=True)
        nodes[f"n{node}"] = int(states[node]), tuple(f"n{parent}" for parent in parents), table
    return nodes


def random_network(seed, **settings):
    """A tree, a network with cycles or a Markov network of up to five nodes, some of them latent."""
    random = np.random.default_rng(seed)
    count = int(random.integers(2, 6))
    names = [f"n{node}" for node in range(count)]
    hidden = [name for name in names[1:] if random.random() < 0.15]
    kind = seed % 4
    if kind < 2:
        nodes = random_bayesian(random, count, most_parents=kind + 1, zeros=bool(random.random() < 0.3))
        return BayesianNetwork(nodes, latent=hidden, **settings)
    states = dict.fromkeys(names, 2)
    pairs = [(names[int(random.integers(0, node))], names[node]) for node in range(1, count)]
    if kind == 3:
        pairs += [tuple(pair) for pair in itertools.combinations(names, 2) if random.random() < 0.4]
    factors = [(pair, random.gamma(1.0, size=(2, 2)) + 0.05) for pair in pairs]
    factors += [((name,), random.gamma(2.0, size=2) + 0.05) for name in names if random.random() < 0.5]
    return MarkovNetwork(states, factors, latent=hidden, **settings)
