"""Networks from files and from other libraries: BIF and UAI text, pyAgrum and pgmpy models.

Everything becomes plain names, states and tables; whether they make sense is checked by the networks themselves.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.errors import DependenceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray


NodeTables = dict[str, tuple[int, tuple[str, ...], "NDArray[np.float64]"]]
"""Node to (number of states, parents, table of shape (states of the parents..., states of the node))."""

FactorList = tuple[dict[str, int], list[tuple[tuple[str, ...], "NDArray[np.float64]"]]]
"""Numbers of states by node, and factors as (nodes, table of shape their states)."""

_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)
      | "(?P<quoted>[^"\n]*)"
      | (?P<mark>[{}\[\]()|,;])
      | (?P<word>[^\s{}\[\]()|,;"]+)""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    line: int
    mark: bool  # punctuation, not a name


class _Tokens:
    """Reads the tokens of a text one after the other, with their line numbers."""

    def __init__(self, tokens: Iterator[_Token]) -> None:
        self._tokens = list(tokens)
        self._next = 0

    def __bool__(self) -> bool:
        return self._next < len(self._tokens)

    @property
    def line(self) -> int:
        """Line of the next token, or of the last one at the end."""
        return self._tokens[min(self._next, len(self._tokens) - 1)].line if self._tokens else 1

    def take(self) -> _Token:
        if not self:
            raise _fault(self.line, "the text ends too early", "more text", "see that the file is whole")
        self._next += 1
        return self._tokens[self._next - 1]

    def expect(self, *marks: str) -> _Token:
        token = self.take()
        if not token.mark or token.text not in marks:
            raise _fault(token.line, f"found {token.text!r}", " or ".join(map(repr, marks)), "fix the line")
        return token

    def until(self, *marks: str) -> tuple[list[_Token], str]:
        """Return the tokens before the next of the marks, and the mark."""
        found: list[_Token] = []
        while True:
            token = self.take()
            if token.mark and token.text in marks:
                return found, token.text
            found.append(token)


def _fault(line: int, wrong: str, expected: str, todo: str) -> DependenceError:
    return DependenceError(f"Line {line}: {wrong} (expected: {expected}). {todo[:1].upper()}{todo[1:]}.", line=line)


def _bif_tokens(text: str) -> Iterator[_Token]:
    place, line = 0, 1
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise _fault(
                line, f"{text[place]!r} opens a quotation that its line does not close", "a second quote", "close it"
            )
        if match["space"] is None:
            content = next(match[kind] for kind in ("quoted", "mark", "word") if match[kind] is not None)
            yield _Token(content, line, match["mark"] is not None)
        line += match.group().count("\n")
        place = match.end()


def _listed(tokens: Sequence[_Token]) -> list[str]:
    """Return the names between commas, each of one or more words."""
    names: list[list[str]] = [[]]
    for token in tokens:
        if token.mark and token.text == ",":
            names.append([])
        else:
            names[-1].append(token.text)
    return [" ".join(words) for words in names if words]


def _numbers(tokens: Sequence[_Token]) -> list[float]:
    return [_number(token) for token in tokens if not (token.mark and token.text == ",")]


def _number(token: _Token) -> float:
    try:
        value = float(token.text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise _fault(token.line, f"found {token.text!r}", "a number", "fix the line")
    return value


def read_bif(text: str) -> NodeTables:
    """Read a Bayesian network from text in the Bayesian network interchange format. Errors name the line.

    Understood are comments, quotes, state names with spaces and slashes, ``table``, ``default`` and one entry for each
    combination of the parents. Properties are skipped. In a ``table`` the node's own states vary slowest, as the
    format has it.
    """
    tokens = _Tokens(_bif_tokens(text))
    states: dict[str, list[str]] = {}
    blocks: dict[str, _Block] = {}
    while tokens:
        word = tokens.take()
        if word.text == "network" and not word.mark:
            tokens.until("{")
            depth = 1
            while depth:
                token = tokens.take()
                depth += {"{": 1, "}": -1}.get(token.text, 0) if token.mark else 0
        elif word.text == "variable" and not word.mark:
            _read_variable(tokens, states)
        elif word.text == "probability" and not word.mark:
            block = _read_probability(tokens)
            if block.node in blocks:
                raise _fault(block.line, f"node {block.node!r} has a second table", "one for each", "remove one")
            blocks[block.node] = block
        else:
            raise _fault(word.line, f"found {word.text!r}", "network, variable or probability", "fix the line")
    tables = {node: block.nodes_table(states) for node, block in blocks.items()}
    missing = states.keys() - blocks.keys()
    if missing or not states:
        which = repr(min(missing)) if missing else "any variable"
        raise _fault(tokens.line, f"there is no probability of {which}", "one for every variable", "add it")
    return {node: tables[node] for node in states}


def _read_variable(tokens: _Tokens, states: dict[str, list[str]]) -> None:
    head, _ = tokens.until("{")
    line, name = tokens.line, " ".join(token.text for token in head)
    if not name or name in states:
        raise _fault(line, f"the variable {name!r} has no name or comes twice", "one name each", "rename it")
    while not (word := tokens.take()).mark:
        if word.text != "type":
            tokens.until(";")
            continue
        kind, _ = tokens.until("[")
        count, _ = tokens.until("]")
        tokens.expect("{")
        listed, _ = tokens.until("}")
        tokens.expect(";")
        if [token.text for token in kind] != ["discrete"]:
            raise _fault(word.line, f"the variable {name!r} is not discrete", "type discrete", "cut it into classes")
        wanted, labels = int(_numbers(count)[0]) if count else 0, _listed(listed)
        if len(labels) != wanted:  # some writers put spaces between names instead of commas
            labels = [token.text for token in listed if not token.mark]
        if len(labels) != wanted or len(set(labels)) != wanted or not wanted:
            raise _fault(word.line, f"{name!r} has the states {labels}", f"{wanted} different ones", "fix the line")
        states[name] = labels
    if word.text != "}" or name not in states:
        raise _fault(word.line, f"found {word.text!r} in the variable {name!r}", "its type, then '}'", "fix the line")


@dataclass(frozen=True, slots=True)
class _Block:
    """One ``probability`` block of a BIF file, with the numbers for each state of the parents."""

    node: str
    parents: tuple[str, ...]
    line: int
    found: dict[str | tuple[str, ...], tuple[int, list[float]]]

    def nodes_table(self, states: Mapping[str, Sequence[str]]) -> tuple[int, tuple[str, ...], NDArray[np.float64]]:
        unknown = [name for name in (self.node, *self.parents) if name not in states]
        if unknown:
            raise _fault(self.line, f"{unknown[0]!r} is no variable", "names of variables", "declare it")
        own, above = len(states[self.node]), [len(states[name]) for name in self.parents]
        if "table" in self.found:
            values = self._values("table", own * math.prod(above))
            return own, self.parents, np.moveaxis(np.reshape(values, (own, *above)), 0, -1)
        table = np.full((*above, own), np.nan)
        if "default" in self.found:
            table[...] = self._values("default", own)
        for labels in [key for key in self.found if key != "default"]:
            given = list(zip(self.parents, labels, strict=False))
            if len(labels) != len(above) or any(label not in states[parent] for parent, label in given):
                line = self.found[labels][0]
                raise _fault(line, f"{labels} are no states of {self.parents}", "one of each parent", "fix the line")
            table[tuple(states[parent].index(label) for parent, label in given)] = self._values(labels, own)
        if np.isnan(table).any():
            raise _fault(
                self.line,
                f"parents of {self.node!r} have combinations without an entry",
                "one for each combination",
                "add them",
            )
        return own, self.parents, table

    def _values(self, key: str | tuple[str, ...], expected: int) -> list[float]:
        line, values = self.found[key]
        if len(values) != expected:
            raise _fault(line, f"{self.node!r} has {len(values)} probabilities", f"{expected}", "fix the entry")
        return values


def _read_probability(tokens: _Tokens) -> _Block:
    line = tokens.expect("(").line
    head, mark = tokens.until("|", ")")
    parents = tuple(_listed(tokens.until(")")[0])) if mark == "|" else ()
    block = _Block(" ".join(token.text for token in head), parents, line, {})
    opening = tokens.expect("{", ";")
    while opening.text == "{" and not ((token := tokens.take()).mark and token.text == "}"):
        key: str | tuple[str, ...] = token.text
        if token.mark and key == "(":
            key = tuple(_listed(tokens.until(")")[0]))
            if key in block.found:
                raise _fault(token.line, f"the entry {key} comes twice", "each once", "remove one")
        elif token.mark or key not in ("table", "default", "property"):
            raise _fault(token.line, f"found {key!r}", "table, default, an entry or '}'", "fix the line")
        listed, _ = tokens.until(";")
        if key != "property":
            block.found[key] = token.line, _numbers(listed)
    return block


def read_uai_bayes(text: str) -> NodeTables:
    """Read a Bayesian network from text in the UAI format (``BAYES``), with nodes named "0", "1", ....

    What follows a # is a comment. In a table the last node varies fastest, as the format has it; pyAgrum 3 writes
    tables of nodes with several parents in another order: take such networks from the library itself or as BIF.
    """
    states, factors = _read_uai(text, "BAYES")
    nodes: NodeTables = {}
    for scope, table in factors:
        if scope[-1] in nodes:
            raise DependenceError(f"Node {scope[-1]} has a second table. Remove one.")
        nodes[scope[-1]] = table.shape[-1], scope[:-1], table
    missing = [name for name in states if name not in nodes]
    if missing:
        raise DependenceError(f"Node {missing[0]} has no table. Add one in which this node is the last variable.")
    return {name: nodes[name] for name in states}


def read_uai_markov(text: str) -> FactorList:
    """Read a Markov network from text in the UAI format (``MARKOV``), with nodes named "0", "1", ...."""
    return _read_uai(text, "MARKOV")


def _read_uai(text: str, preamble: str) -> FactorList:
    lines = enumerate(text.splitlines(), start=1)
    tokens = _Tokens(_Token(word, number, False) for number, line in lines for word in line.split("#")[0].split())
    first = tokens.take()
    if first.text.upper() != preamble:
        raise _fault(first.line, f"the preamble is {first.text!r}", preamble, "read it as the other kind of network")
    names = [str(node) for node in range(_whole(tokens, least=1))]
    states = {name: _whole(tokens, least=1) for name in names}
    scopes = [_scope(tokens, names) for _ in range(_whole(tokens, least=0))]
    factors = []
    for scope in scopes:
        shape, line = [states[name] for name in scope], tokens.line
        entries = _whole(tokens, least=1)
        if entries != math.prod(shape):
            raise _fault(line, f"a table over {scope} has {entries} entries", f"{math.prod(shape)}", "fix the table")
        factors.append((scope, np.reshape([_number(tokens.take()) for _ in range(entries)], shape)))
    if tokens:
        raise _fault(tokens.line, "there is text after the last table", "the end", "see that the counts are right")
    return states, [(scope, table) for scope, table in factors if scope]


def _whole(tokens: _Tokens, *, least: int, most: float = math.inf) -> int:
    token = tokens.take()
    if not re.fullmatch(r"[0-9]{1,12}", token.text) or not least <= int(token.text) <= most:
        bound = f" of at least {least}" if most == math.inf else f" from {least} to {most}"
        raise _fault(token.line, f"found {token.text!r}", f"a whole number{bound}", "fix the line")
    return int(token.text)


def _scope(tokens: _Tokens, names: Sequence[str]) -> tuple[str, ...]:
    line, size = tokens.line, _whole(tokens, least=0, most=len(names))
    scope = tuple(names[_whole(tokens, least=0, most=len(names) - 1)] for _ in range(size))
    if len(set(scope)) != size:
        raise _fault(line, f"a table names a node twice: {scope}", "each once", "fix the line")
    return scope


def text_of(path: str | Path) -> str:
    """Return the text of a file, or reject a file that cannot be read or is no text."""
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise DependenceError(f"The file {Path(path).name!r} is not UTF-8 text. Pass a text file.") from None
    except OSError as fault:
        raise DependenceError(
            f"The file {Path(path).name!r} cannot be read: {fault.strerror}. Check the path and its permissions."
        ) from None


def scaled(nodes: NodeTables, *, tolerance: float) -> NodeTables:
    """Return the nodes with probabilities scaled to sum 1 where rounding in the file made them miss it slightly."""
    found: NodeTables = {}
    for name, (states, parents, table) in nodes.items():
        sums = table.sum(axis=-1, keepdims=True)
        rounded = np.abs(sums - 1.0) <= tolerance
        found[name] = states, parents, np.divide(table, sums, out=table.copy(), where=rounded)
    return found


def _expect(given: Any, what: str, *methods: str) -> None:
    if isinstance(given, type) or not all(callable(getattr(given, method, None)) for method in methods):
        kind = f"The class {given.__name__}" if isinstance(given, type) else f"An object of type {type(given).__name__}"
        raise DependenceError(f"{kind} was passed. Pass a {what}, or use from_file.")


def pyagrum_nodes(network: Any) -> NodeTables:
    """Return the nodes of a ``pyagrum.BayesNet``."""
    _expect(network, "pyagrum.BayesNet", "names", "cpt")
    nodes: NodeTables = {}
    for name in sorted(network.names()):
        own, *above = network.cpt(name).names
        table = _pyagrum_table(network.cpt(name), (*above, own))
        nodes[name] = table.shape[-1], tuple(above), table
    return nodes


def pyagrum_factors(network: Any) -> FactorList:
    """Return the states and factors of a ``pyagrum.MarkovRandomField``."""
    _expect(network, "pyagrum.MarkovRandomField", "names", "variable", "factors", "factor")
    states = {name: network.variable(name).domainSize() for name in sorted(network.names())}
    scopes = [tuple(network.factor(nodes).names) for nodes in network.factors()]
    factors = [(s, _pyagrum_table(network.factor({network.idFromName(n) for n in s}), s)) for s in sorted(scopes)]
    return states, factors


def _pyagrum_table(tensor: Any, order: Sequence[str]) -> NDArray[np.float64]:
    """Return a tensor of pyAgrum as an array with axes in the given order of names."""
    names = list(reversed(tensor.names))
    values = np.asarray(tensor.toarray(), dtype=np.float64)
    return values.transpose([names.index(name) for name in order])


def pgmpy_nodes(model: Any) -> NodeTables:
    """Return the nodes of a discrete Bayesian network of pgmpy."""
    _expect(model, "discrete Bayesian network of pgmpy", "get_cpds")
    cpds = {cpd.variables[0]: cpd for cpd in model.get_cpds()}
    own = {name: cpd.state_names[name] for name, cpd in cpds.items()}
    nodes: NodeTables = {}
    for name, cpd in cpds.items():
        table = _pgmpy_table(cpd, own)
        nodes[str(name)] = table.shape[0], tuple(map(str, cpd.variables[1:])), np.moveaxis(table, 0, -1)
    return nodes


def pgmpy_factors(model: Any) -> FactorList:
    """Return the states and factors of a discrete Markov network of pgmpy."""
    _expect(model, "discrete Markov network of pgmpy", "get_factors")
    factors = model.get_factors()
    first: dict[Any, Sequence[Any]] = {}
    for factor in factors:
        for name in factor.variables:
            first.setdefault(name, factor.state_names[name])
    tables = [(tuple(map(str, factor.variables)), _pgmpy_table(factor, first)) for factor in factors]
    return {str(name): len(labels) for name, labels in first.items()}, tables


def _pgmpy_table(factor: Any, order: Mapping[Any, Sequence[Any]]) -> NDArray[np.float64]:
    table = np.asarray(factor.values, dtype=np.float64)
    for axis, name in enumerate(factor.variables):
        if name not in order or set(order[name]) != set(factor.state_names[name]):
            raise DependenceError(
                f"The tables of the model have different states of {name!r}. Give all "
                "tables the same states of this node."
            )
        places = {label: place for place, label in enumerate(factor.state_names[name])}
        table = np.take(table, [places[label] for label in order[name]], axis=axis)
    return table
