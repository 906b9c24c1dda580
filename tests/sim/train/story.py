"""All that happens to a group from outside, drawn from a seed or read from a file."""

from __future__ import annotations

import random
from enum import StrEnum
from pathlib import Path

import msgspec

FAULTY_S = 50.0


class ActionKind(StrEnum):
    """The kinds of disturbances, each at a moment, to a process by its index."""

    KILL = "kill"
    KILL_TWO = "kill two"
    KILL_ON_SEND = "kill after a message was sent"
    PAUSE = "pause"
    PAUSE_ON_SEND = "pause after a message was sent"
    VANISH = "machine vanishes"
    BREAK = "lines break"
    CUT_OUT = "cut, outgoing"
    CUT_IN = "cut, incoming"
    CUT_BOTH = "cut, both ways"
    LOSE_MESSAGE = "message lost on a line"
    SLOW = "slow lines"
    CLOCK = "clock steps"
    RESIZE = "resize"
    LEAVE = "told to leave"
    LEAVE_ALL = "all told to leave"
    STICK = "training thread busy"


# Kinds that keep living members from each other for longer than the others wait for them.
PARTING = (
    ActionKind.PAUSE,
    ActionKind.VANISH,
    ActionKind.CUT_OUT,
    ActionKind.CUT_IN,
    ActionKind.CUT_BOTH,
    ActionKind.SLOW,
    ActionKind.STICK,
)
# How often each kind occurs in a story that has it, beside the others.
_WEIGHTS = {
    ActionKind.KILL: 6,
    ActionKind.KILL_TWO: 3,
    ActionKind.KILL_ON_SEND: 8,
    ActionKind.PAUSE: 5,
    ActionKind.PAUSE_ON_SEND: 4,
    ActionKind.VANISH: 2,
    ActionKind.BREAK: 3,
    ActionKind.CUT_OUT: 3,
    ActionKind.CUT_IN: 3,
    ActionKind.CUT_BOTH: 4,
    ActionKind.LOSE_MESSAGE: 3,
    ActionKind.SLOW: 2,
    ActionKind.CLOCK: 1,
    ActionKind.RESIZE: 6,
    ActionKind.LEAVE: 4,
    ActionKind.LEAVE_ALL: 1,
    ActionKind.STICK: 3,
}
# Messages after which a sender is killed or paused: the moments that an agreement is made of.
_WORDS = (
    "Prepare",
    "Promise",
    "ProposePlan",
    "ProposePlan",
    "PlanAccepted",
    "PlanCommitted",
    "PlanCommitted",
    "PlanCommitted",
    "Abort",
    "AskBegun",
    "BegunAnswer",
    "SwitchAfter",
    "Depart",
    "StatusChange",
    "Hello",
    "Follow",
)


class Action(msgspec.Struct, frozen=True, omit_defaults=True):
    """One disturbance. `amount` in [0, 1) is a degree, depending on the kind."""

    at: float
    kind: ActionKind
    index: int
    amount: float = 0.0
    other: int = 0
    word: str = ""

    def scaled(self, low: float, high: float) -> float:
        return low + (high - low) * self.amount

    @property
    def lasts_s(self) -> float:
        """How long the disturbance itself lasts: 0 for what happens at once."""
        match self.kind:
            case ActionKind.PAUSE | ActionKind.PAUSE_ON_SEND:
                return self.scaled(0.5, 20.0)
            case ActionKind.VANISH:
                return self.scaled(20.0, 40.0) if self.kills else self.scaled(2.0, 25.0)
            case ActionKind.CUT_OUT | ActionKind.CUT_IN | ActionKind.CUT_BOTH | ActionKind.STICK:
                return self.scaled(0.5, 25.0)
            case ActionKind.SLOW:
                return self.scaled(1.0, 10.0)
            case _:
                return 0.0

    @property
    def kills(self) -> bool:
        """Whether the process of a machine that vanishes is dead."""
        return self.other % 2 == 0


class Story(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The circumstances of a run, and its disturbances."""

    seed: int
    size: int
    minimum: int
    latency_s: float
    step_s: float
    lag_s: float  # of the members folder, at most
    has_addresses: bool  # pods have addresses of their own, which vanish with them
    n_steps: int = 0  # 0: training has no end
    # The port of an ended process answers nothing, as behind a relay or at an address that is gone.
    ends_are_silent: bool = False
    # How long a process takes at most until it has built its model and knows of its checkpoint.
    loads_s: float = 4.0
    actions: tuple[Action, ...] = ()
    mutant: str = ""
    violates: str = ""


def draw_story(seed: int) -> Story:
    """The story of a seed."""
    chance = random.Random(f"bus {seed}")
    size = chance.choice((1, 2, 2, 3, 3, 3, 4, 4, 5))
    return Story(
        seed=seed,
        size=size,
        minimum=chance.choice((1, 1, 1, 2)) if size > 1 else 1,
        latency_s=chance.choice((0.001, 0.01, 0.05, 0.15)),
        step_s=chance.choice((0.05, 0.3, 1.0)),
        lag_s=chance.choice((0.05, 0.05, 3.0, 25.0)),
        has_addresses=chance.random() < 0.5,
        n_steps=chance.choice((0, 0, 0, 0, 0, 60)),
        actions=tuple(_draw_actions(chance, size)),
        ends_are_silent=random.Random(f"ends {seed}").random() < 0.3,
        loads_s=45.0 if random.Random(f"loads {seed}").random() < 0.15 else 4.0,
    )


def _draw_actions(chance: random.Random, size: int) -> list[Action]:
    """Some stories mix all kinds, others have few kinds but those often, or close together."""
    if chance.random() < 0.2:
        return _draw_broken_agreement(chance, size)
    kinds = list(ActionKind)
    if chance.random() < 0.6:
        kinds = chance.sample(kinds, chance.randint(1, 4))
    weights = [_WEIGHTS[kind] for kind in kinds]
    n_actions = chance.choice((1, 2, 3, 5, 8, 12))
    bursts = [chance.uniform(0.0, FAULTY_S) for _ in range(chance.randint(1, 4))]
    found = []
    for _ in range(n_actions):
        at = chance.uniform(0.0, FAULTY_S)
        if chance.random() < 0.6:
            at = min(FAULTY_S, chance.choice(bursts) + chance.expovariate(1.0))
        kind = chance.choices(kinds, weights)[0]
        found.append(
            Action(
                at=round(at, 3),
                kind=kind,
                index=chance.randrange(size + 1),
                amount=round(chance.random(), 3),
                other=chance.randrange(size + 2),
                word=chance.choice(_WORDS) if kind.value.endswith("sent") else "",
            )
        )
    return sorted(found, key=lambda action: action.at)


def _draw_broken_agreement(chance: random.Random, size: int) -> list[Action]:
    """A change, in the midst of which whoever sends a certain message stops for long, or dies."""
    found = []
    for _ in range(chance.randint(1, 3)):
        at = round(chance.uniform(5.0, FAULTY_S - 15.0), 3)
        index = chance.randrange(size)
        change = chance.choice((ActionKind.KILL, ActionKind.RESIZE, ActionKind.LEAVE))
        stop = chance.choice(
            (ActionKind.PAUSE_ON_SEND, ActionKind.PAUSE_ON_SEND, ActionKind.KILL_ON_SEND)
        )
        word = chance.choice(("ProposePlan", "PlanAccepted", "PlanCommitted", "Promise"))
        found += [
            # An index beyond all others is anybody's.
            Action(at=at, kind=stop, index=size, amount=chance.uniform(0.5, 0.99), word=word),
            Action(at=at + 0.01, kind=change, index=index, other=chance.randrange(size + 2)),
        ]
    return sorted(found, key=lambda action: action.at)


def read_story(path: Path) -> Story:
    return msgspec.json.decode(path.read_bytes(), type=Story)


def write_story(path: Path, story: Story) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(story), indent=1) + b"\n")
