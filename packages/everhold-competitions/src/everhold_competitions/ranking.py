"""Computes the leaderboard of a competition from its ledger alone, during the competition and after its end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.asking.unsealing import disclosed
from everhold.estimand import about_of
from everhold.ledger.store import all_entries
from everhold.values.base import BoundQuery
from everhold.values.units import MeanUnits
from everhold_competitions.competition import LEADER, SCORE
from everhold_competitions.leaderboard import Comparison, Leaderboard, RankingRow, ranked
from everhold_competitions.submission_result import is_score
from everhold_competitions.teams import Submissions

if TYPE_CHECKING:
    from everhold.ledger.chain import Numbers
    from everhold_competitions.leaderboard import Ranks
    from everhold_competitions.session import CompetitionSession
    from everhold_competitions.teams import Team

    Told = tuple[float | None, float, float]


_NOTHING = None, None, None  # score and interval of a team that was told nothing


def leaderboard(contest: CompetitionSession) -> Leaderboard:
    """Return the current leaderboard. No query is asked or charged."""
    executor, head = contest.executor, contest.executor.ledger.head()
    accounts = head.accounts
    every = accounts.of(Submissions).teams.values()
    teams = [team for team in every if not team.out]
    final, comparisons = accounts.unsealings > 0, []
    if final:
        entries = all_entries(contest.executor.ledger)
        by_entry = disclosed(entries)  # means of row values
        told = {entry.query: by_entry[entry.sequence] for entry in entries if entry.sequence in by_entry}
        standings = [_ranking_row(contest, team, told.get(contest.scoring.score_digest(team.final))) for team in teams]
        comparisons = _comparisons(contest, teams, told, {each.team: each for each in standings})
        ranks = _ranks(standings, comparisons)
    elif contest.public is not None:
        scores = contest.public.scores()
        standings = []
        for team in teams:
            score, low, high = scores.get(team.name, _NOTHING)
            standings.append(RankingRow(team.name, score, low, high, None, team.received))
        ranks = _ranks_by_scores(standings, higher_is_better=contest.scoring.higher_is_better)
    elif contest.competition.feedback == SCORE:
        standings = [_ranking_row(contest, team, _answered(contest, team)) for team in teams]
        known = combinations([row for row in standings if row.low is not None], 2)  # better if intervals do not meet
        ranks = _ranks(standings, (_apart(*pair, higher_is_better=contest.scoring.higher_is_better) for pair in known))
    else:
        standings = [_ranking_row(contest, team, None) for team in teams]
        ranks = _ranks_of_leaders(contest, teams) if contest.competition.feedback == LEADER else {}
    if final and contest.public is not None:  # with the rank that each team had when submissions ended
        scores = contest.public.scores()
        told_last = [replace(row, score=scores[row.team][0]) for row in standings if row.team in scores]
        before = _ranks_by_scores(told_last, higher_is_better=contest.scoring.higher_is_better)
        standings = [replace(row, public_rank=before.get(row.team, (None, None))[0]) for row in standings]
    standings = ranked(standings, ranks, higher_is_better=contest.scoring.higher_is_better)
    terms = contest.terms(accounts.of(Submissions))
    return Leaderboard(
        holdout=executor.record.name, metric=contest.competition.in_words,
        higher_is_better=contest.scoring.higher_is_better,
        feedback=contest.competition.feedback, final=final, comparisons=comparisons,
        standings=standings, disqualified={team.name: team.out for team in every if team.out},
        confidence=executor.mechanism.confidence, statement=executor.promise.statement,
        about=about_of(executor.schema, by_position=True),
        deadline=terms.deadline, rules=terms.rules,
        public=None if contest.public is None else contest.public.facts,
        shown=contest.competition.on_boards(executor.schema.label),
    )  # fmt: skip


def certified_competition(contest: CompetitionSession) -> dict[str, Any]:
    """Return the competition's facts for a certificate, with the final leaderboard after the end."""
    board = leaderboard(contest)
    rows = [
        {**row, "submissions": board[row["team"]].submissions} for row in board.for_people().to_dict()["rows"]
    ] if board.final else []  # fmt: skip
    accounts = contest.accounts()
    return {
        "feedback": contest.competition.feedback,
        "metric": board.measure,
        "teams": contest.competition.teams,
        "submissions": contest.competition.submissions,
        "acts": accounts.of(Submissions).entries,
        "rows": rows,
        **({} if contest.public is None else {"public": contest.public.facts}),
    }


def _answered(contest: CompetitionSession, team: Team) -> Told | None:
    """Return the score and interval of a team's final submission, None if the team has no answer for it.

    The score is None if the answer only confirmed a guess, because then no sealed score is known.
    """
    entry = contest.executor.ledger.find(contest.scoring.score_digest(team.final))
    if entry is None or entry.answer["low"] is None:
        return None
    answer = entry.answer
    return answer["value"] if is_score(answer["source"]) else None, answer["low"], answer["high"]


def _ranking_row(contest: CompetitionSession, team: Team, numbers: Told | None) -> RankingRow:
    step = contest.executor.mechanism.row_step
    score, low, high = MeanUnits.of(contest.scoring.facts).in_units(*numbers or (None, None, None), row_step=step)
    return RankingRow(team.name, score, low, high, None, team.received)


def _comparisons(
    contest: CompetitionSession, teams: list[Team], told: Mapping[str, Numbers], standings: Mapping[str, RankingRow]
) -> list[Comparison]:
    """Compare all pairs of teams by their paired difference and by their two intervals, which all hold at once."""
    found = []
    for first, second in combinations(teams, 2):
        if first.final == second.final:
            found.append(Comparison(first.name, second.name, 0.0, 0.0, 0.0, None))
            continue
        query, turned = contest.scoring.comparison(first.final, second.final)
        numbers = told.get(query)
        each = standings[first.name], standings[second.name]
        by_scores = None
        if all(row.low is not None for row in each):
            by_scores = _apart(*each, higher_is_better=contest.scoring.higher_is_better)
        if numbers is not None:
            paired = _paired(contest, first.name, second.name, numbers, turned=turned)
            found.append(paired if by_scores is None else _both(paired, by_scores))
        elif by_scores is not None:
            found.append(by_scores)
    return found


def _paired(contest: CompetitionSession, first: str, second: str, numbers: Numbers, *, turned: bool) -> Comparison:
    """Return the comparison of two teams from the mean of ``(1 + d) / 2``, where d is the difference of row values.

    If `turned` is true, the mean is about the second team's values minus the first team's, and is reversed.
    """
    mean, low, high = (1.0 - numbers[0], 1.0 - numbers[2], 1.0 - numbers[1]) if turned else numbers
    rises = contest.scoring.rises
    larger, smaller = low > 0.5, high < 0.5
    better = first if (larger if rises else smaller) else second if (smaller if rises else larger) else None
    width = contest.scoring.facts.at_one - contest.scoring.facts.at_zero
    bound = BoundQuery({}, "", at_zero=-width, at_one=width)
    told = MeanUnits.of(bound).in_units(mean, low, high, row_step=contest.executor.mechanism.row_step)
    difference, least, most = (0.0 if number is None else number for number in told)
    return Comparison(first, second, difference, least, most, better)


def _apart(first: RankingRow, second: RankingRow, *, higher_is_better: bool) -> Comparison:
    """Return the comparison of two teams from their two intervals, for pairs without a paired difference.

    `higher_is_better` is true if a larger score is better.
    """
    assert first.low is not None
    assert first.high is not None
    assert second.low is not None
    assert second.high is not None
    low, high = first.low - second.high, first.high - second.low
    larger = first.team if low > 0.0 else second.team if high < 0.0 else None
    other = {first.team: second.team, second.team: first.team}
    better = larger if larger is None or higher_is_better else other[larger]
    scored = first.score is not None and second.score is not None
    difference = first.score - second.score if scored else (low + high) / 2.0  # type: ignore[operator]
    return Comparison(first.team, second.team, difference, low, high, better)


def _both(paired: Comparison, by_scores: Comparison) -> Comparison:
    """Return a comparison whose interval is the intersection of a paired interval and of one from two scores.

    So teams whose intervals do not overlap are never tied. If both intervals of the difference do not overlap, which
    may happen with the probability of failure, the paired one is returned.
    """
    low, high = max(paired.low, by_scores.low), min(paired.high, by_scores.high)
    if low > high:
        return paired
    better = by_scores.better if paired.better is None else paired.better
    return replace(paired, low=low, high=high, better=better)


def _ranks(standings: Sequence[RankingRow], comparisons: Iterable[Comparison]) -> dict[str, Ranks]:
    """Return the best and worst possible rank of each team, from proved comparisons and their transitive closure.

    If two teams have the same best and worst rank, neither is proved to be better. A team without an interval may have
    any rank.
    """
    place = {row.team: number for number, row in enumerate(standings)}
    worse_than = np.zeros((len(place), len(place)), dtype=bool)
    for each in comparisons:
        if each.better is not None:
            worse = each.second if each.better == each.first else each.first
            worse_than[place[worse], place[each.better]] = True
    for middle in range(len(place)):
        worse_than |= np.outer(worse_than[:, middle], worse_than[middle])
    better, worse_teams = worse_than.sum(axis=1), worse_than.sum(axis=0)
    return {
        row.team: (int(better[number]) + 1, len(place) - int(worse_teams[number]))
        for number, row in enumerate(standings) if row.low is not None
    }  # fmt: skip


def _ranks_by_scores(standings: Sequence[RankingRow], *, higher_is_better: bool) -> dict[str, Ranks]:
    """Return the ranks by public scores, which are not proved. Teams with the same score share their ranks.

    `higher_is_better` is true if a larger score is better.
    """
    sign = 1.0 if higher_is_better else -1.0
    known = {row.team: sign * row.score for row in standings if row.score is not None}
    scores = list(known.values())
    return {
        team: (1 + sum(other > own for other in scores), sum(other >= own for other in scores))
        for team, own in known.items()
    }


def _ranks_of_leaders(contest: CompetitionSession, teams: list[Team]) -> dict[str, Ranks]:
    """Return the ranks of current and former leaders. Each was proved better than all leaders before it.

    The worst ranks of these teams are unknown (None).
    """
    place = {query: number for number, query in enumerate(contest.leaders())}
    led = {team.name: place[query] for team in teams if (query := contest.scoring.score_digest(team.final)) in place}
    return {name: (1 + sum(other > number for other in led.values()), None) for name, number in led.items()}
