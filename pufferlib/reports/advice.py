"""Advice on the phase of a training that takes most of its time, in a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

DOMINATES = 0.5  # the share of the time from which a part dominates

_PARTS = {
    "environment": ("environment",),
    "acting": ("forward", "store"),
    "learning": ("learn", "advantage"),
    "evaluation": ("evaluation",),
    "communication": ("communicate",),
}
_ALWAYS = ("environment", "acting", "learning")
_THREADED = ("Native", "Device")  # backends that step environments by threads


@dataclass(frozen=True)
class ProfileFacts:
    """The parts of a training that its speed follows from.

    Attributes:
        shares: of the wall time by phase, together 1.
        device: `cpu`, `cuda` or `mps`.
        backend: of the vector, such as `Native`, which steps environments in C; `GPU` where they are on one.
        workers: threads or processes that step them.
        cores: that this process may use.
        agents: in one batch of observations.
        update_epochs: passes over every rollout.
        is_kernel: whether a C kernel computes the policy.
        why_torch: the reason for torch in place of something faster; None where there is none to name.
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
    """Returns the shares of environment, acting, learning, and of everything else that takes time."""
    found = {part: sum(shares.get(phase, 0.0) for phase in phases) for part, phases in _PARTS.items()}
    found["the rest"] = 1.0 - sum(found.values())
    return {part: share for part, share in found.items() if share > 0.0 or part in _ALWAYS}


def advice(facts: ProfileFacts) -> str:
    """Returns one sentence on how to make the training faster, or that no part of it dominates."""
    shares = parts(facts.shares)
    part = max(shares, key=lambda name: shares[name])
    if shares[part] < DOMINATES:
        split = ", ".join(f"{name} {share:.0%}" for name, share in sorted(shares.items(), key=lambda item: -item[1]))
        return f"No part dominates ({split}): only making all of them cheaper, or more cores, would help much."
    subject = "The environment" if part == "environment" else part.capitalize()
    return f"{subject} takes {shares[part]:.0%} of the time: {_remedy(part, facts)}."


def stepping_text(facts: ProfileFacts) -> str:
    """Returns how the environments are stepped, such as `2 threads on 2 cores`."""
    if facts.backend == "GPU":
        return "a thread of the GPU for each"
    one, several = ("thread", "threads") if facts.backend in _THREADED else ("process", "processes")
    workers = f"{facts.workers} {one if facts.workers == 1 else several}"
    return f"{workers} on {facts.cores} core{'s' * (facts.cores != 1)}"


def _remedy(part: str, facts: ProfileFacts) -> str:
    if part == "environment":
        return _faster_environment(facts)
    if part == "acting" and facts.device != "cpu":
        return (
            f"the {facts.device} device is asked in every step for {facts.agents:,} agents; have more of them, by "
            "--env.num-envs, so that each call does more work"
        )
    remedy = {
        "acting": "have a smaller policy, by --policy.hidden-size",
        "learning": (
            f"learn fewer times from each step, by --train.update-epochs (now {facts.update_epochs:g}),"
            if facts.update_epochs > 1.0
            else "have larger minibatches, by --train.minibatch-size,"
        )
        + " as far as the scores allow, or have a smaller policy",
        "evaluation": "evaluate less often, by --train.evaluations",
        "communication": (
            "have larger batches, by --env.num-envs or --train.bptt-horizon, so that gradients are exchanged less often"
        ),
        "the rest": (
            "it is spent between the phases: log less often, by --train.log-interval, "
            "and look at what callbacks and loggers do"
        ),
    }[part]
    if part in ("acting", "learning") and facts.device == "cpu" and not facts.is_kernel and facts.why_torch is not None:
        return f"torch computes the policy, as {facts.why_torch}; change that for the C kernel, or {remedy}"
    return remedy


def _faster_environment(facts: ProfileFacts) -> str:
    if facts.backend == "GymnasiumVector":
        return "it steps itself, as a vector of Gymnasium's; have more environments in it, or a cheaper one"
    if facts.workers < facts.cores:
        backend = "--vec.backend Multiprocessing " if facts.backend == "Serial" else ""
        flags = f"{backend}--vec.num-workers {facts.cores}"
        return f"{facts.workers} of {facts.cores} cores step it; take all of them, by {flags}"
    if facts.backend in _THREADED:
        cores = "the one core steps" if facts.cores == 1 else f"all {facts.cores} cores step"
        return f"{cores} it already, so its step has to become cheaper; `puffer bench` times it alone"
    return "it is in Python; written in C, as ocean/template shows, it would be stepped by threads without Python"
