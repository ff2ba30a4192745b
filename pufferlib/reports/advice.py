"""What to do about the phase of a training that takes most of its time, in a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

DOMINATES = 0.5
"""The share of the time from which a part is said to dominate."""

_PARTS = {
    "environment": ("environment",),
    "acting": ("forward", "store"),
    "learning": ("learn", "advantage"),
    "evaluation": ("evaluation",),
    "communication": ("communicate",),
}

_ALWAYS = ("environment", "acting", "learning")
_WORKERS = {"Native": "thread", "Device": "thread"}  # what steps environments, where it is no process


@dataclass(frozen=True)
class Facts:
    """What a training is made of, as far as its speed follows from it.

    Attributes:
        shares: of the wall time by phase, together 1.
        device: `cpu`, `cuda` or `mps`.
        backend: of the vector, such as `Native`, which steps environments in C; `GPU` where they are on one.
        workers: threads or processes that step them.
        cores: that this process may use.
        agents: in one batch of observations.
        update_epochs: passes over every rollout.
        is_kernel: whether a C kernel computes the policy.
        why_torch: why it is torch, or nothing faster; None where there is nothing to say.
    """

    shares: Mapping[str, float]
    device: str
    backend: str
    workers: int
    cores: int
    agents: int
    update_epochs: float
    is_kernel: bool
    why_torch: str | None


def parts(shares: Mapping[str, float]) -> dict[str, float]:
    """The shares of what a training consists of: environment, acting, learning, and what else takes time."""
    found = {part: sum(shares.get(phase, 0.0) for phase in phases) for part, phases in _PARTS.items()}
    found["the rest"] = 1.0 - sum(found.values())
    return {
        part: share for part, share in found.items() if share > 0.0 or part in ("environment", "acting", "learning")
    }


def advice(facts: Facts) -> str:
    """One sentence on what would make the training faster, or that no part of it dominates."""
    shares = parts(facts.shares)
    part = max(shares, key=lambda name: shares[name])
    if shares[part] < DOMINATES:
        told = ", ".join(f"{name} {share:.0%}" for name, share in sorted(shares.items(), key=lambda item: -item[1]))
        return f"No part dominates ({told}): only making all of them cheaper, or more cores, would help much."
    remedy = {
        "environment": _faster_environment,
        "acting": _faster_acting,
        "learning": _faster_learning,
        "evaluation": lambda facts: "evaluate less often, by --train.evaluations",
        "communication": lambda facts: (
            "have larger batches, by --env.num-envs or --train.bptt-horizon, so that gradients are exchanged less often"
        ),
        "the rest": lambda facts: (
            "it is spent between the phases: log less often, by --train.log-interval, "
            "and look at what callbacks and loggers do"
        ),
    }[part](facts)
    takes = {"environment": "The environment takes", "acting": "Acting takes", "learning": "Learning takes"}
    subject = takes.get(part, f"{part.capitalize()} takes")
    return f"{subject} {shares[part]:.0%} of the time: {remedy}."


def stepping_text(facts: Facts) -> str:
    """Who steps the environments, such as `2 threads on 2 cores`."""
    if facts.backend == "GPU":
        return "a thread of the GPU for each"
    kind = _WORKERS.get(facts.backend, "process")
    return f"{facts.workers} {kind}{_plural(facts.workers, kind)} on {facts.cores} core{'s' * (facts.cores != 1)}"


def _plural(count: int, word: str) -> str:
    if count == 1:
        return ""
    return "es" if word.endswith("s") else "s"


def _faster_environment(facts: Facts) -> str:
    if facts.backend == "GymnasiumVector":
        return "it steps itself, as a vector of Gymnasium's; have more environments in it, or a cheaper one"
    if facts.workers < facts.cores:
        flags = f"--vec.num-workers {facts.cores}"
        if facts.backend == "Serial":
            flags = f"--vec.backend Multiprocessing {flags}"
        return f"{facts.workers} of {facts.cores} cores step it; take all of them, by {flags}"
    if facts.backend in _WORKERS:
        cores = "the one core steps" if facts.cores == 1 else f"all {facts.cores} cores step"
        return f"{cores} it already, so its step has to become cheaper; `puffer bench` times it alone"
    return "it is in Python; written in C, as ocean/template shows, it would be stepped by threads without Python"


def _faster_acting(facts: Facts) -> str:
    if facts.device != "cpu":
        return (
            f"the {facts.device} device is asked in every step for {facts.agents:,} agents; have more of them, by "
            "--env.num-envs, so that each question is worth its way"
        )
    return _smaller_policy(facts, "have a smaller policy, by --policy.hidden-size")


def _faster_learning(facts: Facts) -> str:
    fewer = f"learn fewer times from each step, by --train.update-epochs (now {facts.update_epochs:g}),"
    if facts.update_epochs <= 1.0:
        fewer = "have larger minibatches, by --train.minibatch-size,"
    return _smaller_policy(facts, f"{fewer} as far as the scores allow, or have a smaller policy")


def _smaller_policy(facts: Facts, remedy: str) -> str:
    if facts.is_kernel or facts.why_torch is None or facts.device != "cpu":
        return remedy
    return f"torch computes the policy, as {facts.why_torch}; change that for the C kernel, or {remedy}"
