"""What people decide in a simulation: at any time, or never."""

from collections.abc import Callable
from typing import Any, TypeVar

from atlas.engine.effects.outcomes import Done, NotDone
from atlas.testing.simulation.effects import SimulatedEffect, SimulatedEffects
from atlas.testing.simulation.memory import Memory, SimulatedApproval

Q = TypeVar("Q")

APPROVER = "approver"


class People:
    """Those who answer what runs and effects ask."""

    __slots__ = ()

    memory: Memory
    effects: SimulatedEffects

    def at_any_time(
        self, name: str, act: Callable[[], Any], *, can: Callable[[], bool] = lambda: True, repeats: int = 0
    ) -> None:
        """Let something happen once, at any time from when it can, and up to `repeats` times more."""
        raise NotImplementedError

    def _say(self, what: str) -> None:
        raise NotImplementedError

    def answer_approvals(self, answer: bool | Callable[[SimulatedApproval], bool | None]) -> None:
        """Let a person answer each question of a run at any time, or never: None."""
        decide: Callable[[SimulatedApproval], bool | None] = answer if callable(answer) else lambda _: answer

        def act(approval: SimulatedApproval) -> None:
            self._say(f"{APPROVER} decides {approval.title!r}")
            self.memory.decide(approval, bool(decide(approval)), APPROVER)

        self._answer_each(
            lambda: [
                approval
                for approval in self.memory.approvals
                if approval.status == "pending" and decide(approval) is not None
            ],
            act,
        )

    def settle_effects(self, answer: Callable[[SimulatedEffect], Done | NotDone | None]) -> None:
        """Let a person say of each effect in doubt whether it was made, at any time, or never: None."""

        def act(effect: SimulatedEffect) -> None:
            reply = answer(effect)
            self._say(f"{APPROVER} settles {effect.name}: {reply}")
            self.effects.settle(effect, done=isinstance(reply, Done), reference=getattr(reply, "reference", None))

        self._answer_each(
            lambda: [
                effect
                for effect in self.effects.rows
                if self.effects.is_in_doubt(effect) and answer(effect) is not None
            ],
            act,
        )

    def _answer_each(self, asked: Callable[[], list[Q]], answer: Callable[[Q], None]) -> None:
        """Let a person answer the first question, and then the next, whenever there is one."""

        def act() -> None:
            answer(asked()[0])
            self._answer_each(asked, answer)

        self.at_any_time("a person decides", act, can=lambda: bool(asked()))
