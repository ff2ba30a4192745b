"""Every setting of the sections but env, policy and rnn: type, default, bounds and help, written once.

The command line's help is made from this file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from typing_extensions import Self, override

from pufferlib.errors import ConfigError, nearest
from pufferlib.setting import Section, setting

_HINTS = {  # where settings are, by the names that PufferLib 3.0 and other trainers give to them
    ("use_rnn", "rnn"): "the recurrent layer is [base] rnn_name: MinGRU, LSTM or None",
    ("policy",): "the policy's class is [base] policy_name",
    ("name",): "the run's name at W&B and Neptune is [log] name",
    ("project", "wandb_project", "neptune_project", "neptune_name"): "the project at W&B and Neptune is [log] project",
    ("wandb_project_name",): "the project at W&B is [log] project",
    ("wandb", "neptune", "track"): "metrics go to services by [log] wandb, [log] neptune and [log] tensorboard",
    ("wandb_group", "tag"): "a run's tags and groups are [log] tags",
    ("values",): "a list of values is for the search space of a sweep in Python",
    ("no_model_upload",): "the final model goes to W&B and Neptune with the run",
    ("load_id", "exp_id"): "[base] resume continues a run, [base] load_model_path starts from its weights",
    ("mode",): "the command comes first, as in `puffer train puffer_breakout`",
    ("render_mode",): "`puffer eval` opens a window where there is a display, and none with --headless",
    ("local_rank",): "torchrun tells each process its rank",
    ("num_threads",): "threads and processes that step environments are [vec] num_workers",
    ("env_batch_size",): "PufferEnvs in a batch of observations are [vec] batch_size",
    ("total_agents", "n_envs"): "environments are [env] num_envs, and the PufferEnvs that hold them [vec] num_envs",
    ("num_buffers",): "PufferEnvs that are stepped in turn are [vec] num_envs",
    ("horizon", "n_steps", "num_steps"): "steps in a segment are [train] bptt_horizon",
    ("replay_ratio", "n_epochs"): "passes over each batch are [train] update_epochs",
    ("use_p3o",): "there is PPO alone",
    ("lr",): "it is [train] learning_rate",
    ("entropy_coef",): "it is [train] ent_coef",
    ("value_coef",): "it is [train] vf_coef",
    ("clip_range",): "it is [train] clip_coef",
    ("clip_range_vf",): "it is [train] vf_clip_coef",
    ("normalize_advantage",): "it is [train] norm_adv",
    ("train_batch_size",): "it is [train] batch_size",
    ("cuda",): "it is [train] device",
    ("wandb_entity",): "it is [log] entity",
    ("tensorboard_log",): "it is [log] tensorboard",
    ("capture_video",): "`puffer eval` makes videos, with --video FILE",
    ("save_model",): "a run always saves its policy",
    ("total_steps",): "it is [train] total_timesteps",
}
NAMES = {name: hint for names, hint in _HINTS.items() for name in names}

ARGUMENTS = ("env", "policy", "rnn")  # sections whose keys are the keyword arguments of a class


def remedy(name: str, known: Iterable[str]) -> str:
    """Ends an error message about an unknown setting: with its hint, the nearest settings, or nothing."""
    return f"; {NAMES[name]}" if name in NAMES else nearest(name, known)


def require_known(section: str, names: Iterable[str], known: Iterable[str]) -> None:
    """Raises ConfigError for the first setting that a section does not have, with what is probably meant."""
    known = list(known)
    find_remedy = nearest if section in ARGUMENTS else remedy
    for name in names:
        if name not in known:
            found = find_remedy(str(name), known) or f"; it has {', '.join(known) or 'no settings'}"
            raise ConfigError(f"there is no setting {name!r} in [{section}]{found}")


def words(given: list[str] | str | None) -> list[str]:
    """Returns the words of a setting that is a list of them, or a text with commas between, also in brackets."""
    parts = re.sub(r"^\[(.*)\]$", r"\1", given.strip()).split(",") if isinstance(given, str) else given or ()
    return [part.strip() for part in parts if part.strip()]


Auto = Literal["auto"]
Backend = Literal["auto", "Serial", "Native", "Device", "Multiprocessing", "GymnasiumVector", "EnvPool", "Ray"]


@dataclass(frozen=True)
class ConfigSection(Section):
    """A section of the configuration."""

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Self:
        """Makes the section from a dict; ConfigError if a key is unknown or a value does not fit."""
        require_known(cls.section, given, cls.settings())
        return cls(**given)


@dataclass(frozen=True)
class BaseConfig(ConfigSection, section="base"):
    """The environment and the policy: the top-level keys of the configuration."""

    package: str = setting("ocean", "The collection the environment comes from.")
    env_name: str | None = setting(None, "The environment, such as puffer_squared.")
    policy_name: str = setting("Default", "A class of pufferlib.models or the game's torch.py, or module:Class.")
    rnn_name: str | None = setting(None, "The recurrent layer around the policy, MinGRU or LSTM, or None.")
    load_model_path: str | None = setting(
        None, "The weights to start from: a file, the folder of a run, or 'latest', 'last' or 'best'."
    )
    resume: str | None = setting(None, "The run to continue exactly: its folder, its id, or 'latest'.")


AUTO_SINGLE_ENVS = 16  # environments of their own: enough that a batch is no accident of one episode


@dataclass(frozen=True)
class VecConfig(ConfigSection, section="vec"):
    """How environments are stepped."""

    backend: Backend | type = setting(
        "auto",
        "What steps the environments. auto takes Native for those in C, or Device for a training on CUDA; ale-py's own "
        "for Atari games; EnvPool for those that it was shown to step alike; else Multiprocessing or Serial.",
    )
    num_envs: int | Auto = setting(
        "auto",
        "PufferEnvs, each holding [env] num_envs environments; auto is 16 where each is one environment alone (fewer "
        "if that has 64 agents or more), else 1, or 2 where a GPU trains and the CPU steps them.",
        "[1, 1e6]",
    )
    num_workers: int | Auto = setting(
        "auto", "Threads or processes that step them; auto is the cores this process may use.", "[1, 1e6]"
    )
    batch_size: int | Auto = setting("auto", "PufferEnvs in one batch of observations.", "[1, 1e6]")
    zero_copy: bool = setting(True, "Batches are fixed groups of PufferEnvs, as training needs them, and not copied.")
    step_timeout_seconds: float | None = setting(
        None,
        "Seconds after which a worker process that has not done its step or reset is killed; None is no limit: then "
        "one that hangs holds up the run until Ctrl-C is pressed twice.",
        "(0, inf)",
    )
    seed: int | None = setting(None, "Seed of the environments; None takes [train] seed.", "[0, inf)")

    def keywords(self, device_type: str, seed: int, are_single: bool = False) -> dict[str, Any]:
        """Returns the keyword arguments of `pufferlib.vector.make`, without `num_envs = 'auto'` and `seed = None`.

        A second PufferEnv pays on CUDA, where stepping overlaps with the GPU's work. `are_single` says that a PufferEnv
        is one environment, as those in Python mostly are.
        """
        chosen = {name: getattr(self, name) for name in self.settings()}
        if self.num_envs == "auto":
            chosen["num_envs"] = AUTO_SINGLE_ENVS if are_single else 2 if device_type == "cuda" else 1
        if self.seed is None:
            chosen["seed"] = seed
        return chosen


@dataclass(frozen=True)
class LogConfig(ConfigSection, section="log"):
    """Where metrics go besides metrics.jsonl."""

    tensorboard: bool = setting(False, "Write TensorBoard event files to the folder tensorboard of the run.")
    wandb: bool = setting(False, "Log to Weights & Biases; the key is that of `wandb login` or WANDB_API_KEY.")
    neptune: bool = setting(False, "Log to a Neptune server; the token is that of NEPTUNE_API_TOKEN.")
    project: str = setting("pufferlib", "The project at W&B or Neptune.")
    entity: str | None = setting(None, "The team at W&B, the workspace at Neptune; None is W&B's default.")
    name: str | None = setting(None, "The run's name there; None is the run's id at W&B, no experiment at Neptune.")
    tags: list[str] | str | None = setting(None, "The run's tags there: a list, or words with commas between.")
    offline: bool = setting(False, "Only write the files that W&B and Neptune would send, into the run's folder.")


@dataclass(frozen=True)
class SolveConfig(ConfigSection, section="solve"):
    """When an environment counts as solved."""

    metric: str = setting("perf", "The statistic that says so.")
    threshold: float = setting(1.0, "The mean over finished episodes at which the environment is solved.")


@dataclass(frozen=True)
class SelfplayConfig(ConfigSection, section="selfplay"):
    """Against whom the policy plays in games of several agents; each setting is also a keyword of `PuffeRL`."""

    pool_size: int = setting(
        0, "Earlier policies that are kept as opponents, the newest ones; 0 for none.", "[0, 1000]"
    )
    selfplay_share: float = setting(
        0.5, "Share of the games that the policy plays against itself; the others are against the pool.", "[0, 1]"
    )
    pool_choice: Literal["prioritized", "uniform"] = setting(
        "prioritized",
        "How the opponent of a game is drawn from the pool: more often the more it wins, by (1 - win rate)^2 of the "
        "policy against it, or each alike.",
    )
    pool_members: list[str] | str | None = setting(
        None,
        "Agents that are in the pool from the start to the end, as load_agent takes them, bot for the environment's "
        "own, or random: a list, or words with commas between.",
    )
    snapshot_steps: int | Auto = setting(
        "auto", "Agent steps after which the policy enters the pool; auto is a 20th of total_timesteps.", "[1, inf)"
    )
    snapshot_win_rate: float | None = setting(
        None, "Win rate over 100 games against the pool, a draw being half, at which it enters earlier.", "(0, 1]"
    )


@dataclass(frozen=True)
class SweepConfig(ConfigSection, section="sweep"):
    """How `puffer sweep` searches for hyperparameters; sections `[sweep.SECTION.SETTING]` name what it varies."""

    method: Literal["Protein", "Random", "TPE", "GP"] = setting(
        "Protein", "What proposes trials: cost-aware Gaussian processes, or one of Optuna's samplers."
    )
    metric: str | None = setting(
        None,
        "The metric that a trial is scored by: a name in metrics.jsonl, or what comes after its slash; None takes that "
        "of [solve], or episode/return_mean.",
    )
    goal: Literal["maximize", "minimize"] = setting("maximize", "Whether more of it is better, or less.")
    num_trials: int = setting(100, "Trials of the study, those of all machines together.", "[1, 1e6]")
    max_minutes: float | None = setting(
        None, "Minutes after which this process begins no further trial; None is no limit.", "(0, inf)"
    )
    max_suggestion_cost: float = setting(
        3600.0, "Seconds of training: a trial that is expected to take longer is not proposed.", "(0, inf)"
    )
    workers: int = setting(1, "Trials side by side on this machine, each with its share of the cores.", "[1, 1024]")
    storage: str | None = setting(
        None,
        "Where studies are kept: a file, which is a database of SQLite, or the URL of a database that Optuna takes; "
        "None is a file for the study in the folder sweeps of [train] data_dir.",
    )
    study: str | None = setting(None, "The study's name in the storage; None is the environment's.")
    trial_minutes: float | None = setting(
        None, "Minutes after which a trial is ended as failed; None is three times max_suggestion_cost.", "(0, inf)"
    )
    trial_memory_gb: float | None = setting(
        None,
        "Memory in 1e9 bytes beyond which a trial is ended as failed; None is the machine's over workers.",
        "(0, inf)",
    )
    silent_minutes: float = setting(5.0, "Minutes after which a trial that says nothing counts as hung.", "(0, inf)")
    early_stopping: bool = setting(True, "End trials early whose learning curve promises nothing.")
    confirm_best: int = setting(3, "Best trials that are run again in the end, on fresh seeds.", "[0, 1000]")
    confirm_seeds: int = setting(3, "Seeds that each of them is run on.", "[1, 1000]")
    seed: int = setting(0, "Seed of the proposals; trials train by [train] seed.", "[0, inf)")

    @classmethod
    @override
    def from_dict(cls, given: Mapping[str, Any]) -> Self:
        """Makes the section from a dict that may also hold dimensions, as dicts; see `ConfigSection.from_dict`."""
        return super().from_dict({name: value for name, value in given.items() if not isinstance(value, Mapping)})


@dataclass(frozen=True)
class TrainConfig(ConfigSection, section="train"):
    """How the policy is trained. Sizes are in agent steps: one step of one agent."""

    seed: int = setting(42, "Seed of everything random in the run.", "[0, inf)")
    torch_deterministic: bool = setting(True, "Use only kernels of torch that give the same result each time.")
    cpu_offload: bool = setting(False, "Keep the rollout's observations in pinned CPU memory instead of on the GPU.")
    device: str = setting("auto", "cpu, cuda, cuda:N, mps, or auto: CUDA, then MPS, then CPU.")
    precision: Literal["float32", "bfloat16", "auto"] = setting(
        "float32",
        "The type that the policy multiplies in. With bfloat16 the kernel for small policies on a CPU rounds what it "
        "multiplies between the first layer and the head, and pictures, where the processor has AVX512-BF16, and "
        "elsewhere computes in float32. auto is bfloat16 for that kernel on processors that multiply more of it, "
        "AMD's that have it and Intel's with AMX, and float32 otherwise.",
    )
    compile: bool = setting(False, "Compile the policy's pass over minibatches with torch.compile.")
    compile_mode: Literal["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"] = setting(
        "max-autotune-no-cudagraphs", "The mode of torch.compile."
    )
    compile_fullgraph: bool = setting(True, "Compile without graph breaks, or fail.")
    cuda_graphs: bool = setting(
        True,
        "Replay rollout steps and minibatches as CUDA graphs, on CUDA and without compile; minibatches not with sgd or "
        "cpu_offload.",
    )

    fused: bool = setting(
        True,
        "Run small policies by kernels: on a CPU all layers at once, on a GPU rollouts of C environments; with False "
        "torch computes them.",
    )

    total_timesteps: int = setting(
        10_000_000,
        "Agent steps of all processes to train for, those of absent agents counted, at least one batch.",
        "[1, inf)",
    )
    num_iterations: int | None = setting(
        None, "Batches to train for, in place of total_timesteps when it is not None.", "[1, inf)"
    )
    batch_size: int | Auto = setting(
        "auto", "Agent steps of all processes before each update; auto is all agents times bptt_horizon.", "[1, inf)"
    )
    bptt_horizon: int = setting(64, "Steps in one segment: what the recurrence is trained through.", "[1, inf)")
    minibatch_size: int | Auto = setting(
        "auto",
        "Agent steps of all processes in one optimizer step; auto is batch_size over num_minibatches, at least 256 and "
        "at most 16384 on CPUs and 65536 per CUDA device.",
        "[1, inf)",
    )
    num_minibatches: int = setting(
        32, "Optimizer steps in one pass over a batch, where minibatch_size is auto and its limits let it.", "[1, inf)"
    )
    max_minibatch_size: int | Auto = setting(
        "auto", "Agent steps in one backward pass of a process; larger minibatches accumulate gradients.", "[1, inf)"
    )
    update_epochs: float = setting(
        1.0, "Passes over each batch; a fraction of a minibatch is carried over to the next batch.", "(0, 1e6]"
    )
    shuffle: Literal["segments", "steps"] = setting(
        "segments",
        "What minibatches are made of: segments by their priorities, or every single step once in each pass, with the "
        "advantages of the rollout, for policies without recurrence.",
    )
    target_kl: float | None = setting(
        None, "No further pass over a batch after one whose mean approx_kl is above this; None for all.", "(0, inf)"
    )

    optimizer: Literal["muon", "adam", "sgd"] = setting("muon", "The optimizer; Muon for matrices, AdamW for the rest.")
    learning_rate: float = setting(0.015, "Learning rate at the start.", "[0, inf)")
    anneal_lr: bool = setting(True, "Take the learning rate to min_learning_rate over anneal_timesteps.")
    lr_schedule: Literal["cosine", "linear"] = setting("cosine", "The curve along which the learning rate anneals.")
    min_learning_rate: float = setting(0.0, "Where annealing ends, at most learning_rate.", "[0, inf)")
    anneal_timesteps: int | Auto = setting(
        "auto", "Agent steps of all processes over which it is annealed; auto is the whole run.", "[1, inf)"
    )
    adam_beta1: float = setting(0.95, "Momentum, of every optimizer.", "[0, 1)")
    adam_beta2: float = setting(0.999, "Decay of Adam's second moment.", "[0, 1)")
    adam_eps: float = setting(1e-12, "Adam's epsilon.", "(0, inf)")
    weight_decay: float = setting(0.0, "Weight decay, decoupled except for sgd.", "[0, inf)")
    max_grad_norm: float = setting(1.5, "Gradients are scaled down to this norm; inf for never.", "(0, inf]")
    skip_nonfinite: bool = setting(
        False,
        "Leave out segments with an infinite or NaN reward or observation, and minibatches with such a loss or "
        "gradient, and count them; else they stop the run. The trainer then waits for a GPU after each minibatch.",
    )

    gamma: float = setting(0.995, "Discount per step.", "[0, 1]")
    gae_lambda: float = setting(
        0.95, "Decay of the advantage's bootstrap; 1 is none, so that returns are plain discounted sums.", "[0, 1]"
    )
    vtrace_rho_clip: float = setting(1.0, "Upper limit of the importance ratio of a step's error.", "(0, inf]")
    vtrace_c_clip: float = setting(1.0, "Upper limit of the importance ratio of the trace.", "(0, inf]")
    truncation_bootstrap: bool = setting(
        True, "Where a limit cuts an episode, add the value of what would have followed; False takes it for an end."
    )
    reward_clip: float = setting(
        1.0,
        "Rewards, once normalize_rewards has divided them, are clipped to plus or minus this; 0 is off.",
        "[0, 1e30]",
    )
    normalize_rewards: bool = setting(True, "Divide rewards by the running deviation of their discounted sum.")
    normalize_observations: bool = setting(
        False, "Subtract the running mean of the observations, and divide by their running deviation."
    )
    normalization_clip: float = setting(10.0, "What is normalised is clipped to plus or minus this.", "(0, inf]")
    clip_coef: float = setting(0.2, "How far the policy ratio may leave 1 before its gradient is cut.", "(0, inf)")
    norm_adv: bool = setting(True, "Normalise the advantages of each minibatch.")
    vf_coef: float = setting(0.5, "Weight of the value loss.", "[0, inf)")
    clip_vloss: bool = setting(True, "Clip the value loss.")
    vf_clip_coef: float = setting(10.0, "How far a value may move before its gradient is cut.", "(0, inf)")
    ent_coef: float = setting(0.03, "Weight of the entropy bonus.", "[0, inf)")
    prio_alpha: float = setting(0.0, "How much large advantages are drawn more often; 0 for uniformly.", "[0, 1e30]")
    prio_beta0: float = setting(0.2, "How much of that the importance weight corrects at the start.", "[0, 1]")

    evaluations: int = setting(
        0,
        "Evaluations, evenly spread over the run, by the likeliest actions in separate environments; 0 for none.",
        "[0, inf)",
    )
    evaluation_envs: int = setting(
        50, "Environments of an evaluation; every agent in them plays one episode.", "[1, inf)"
    )
    evaluation_max_steps: int = setting(
        20_000, "Steps after which an evaluation ends, and episodes that still run count as they are.", "[1, inf)"
    )
    final_episodes: int | Auto = setting(
        "auto",
        "Whole episodes in separate environments, by which puffer train and trials of a sweep score the final policy. "
        "auto is 1,000 for environments in C and 100 for others; with 0 the score is that of the episodes that ended "
        "in training, among which long ones are missing.",
        "[0, 1e9]",
    )

    data_dir: str = setting("experiments", "The folder of the runs.")
    checkpoint_interval: int = setting(200, "Epochs between checkpoints.", "[1, inf)")
    weights_check_interval: int = setting(
        0, "Epochs between checks that all processes hold the same weights, for debugging; 0 is never.", "[0, inf)"
    )
    log_interval: int = setting(10, "Epochs between two logs.", "[1, inf)")
    dashboard_interval_seconds: float = setting(
        0.25, "Seconds between two refreshes of the dashboard on a terminal.", "[0, inf)"
    )

    @override
    def __post_init__(self):
        super().__post_init__()
        if not re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?", self.device):
            raise ConfigError(f"[train] device must be auto, cpu, cuda, cuda:N or mps, got {self.device!r}")

    @classmethod
    @override
    def from_dict(cls, given: Mapping[str, Any]) -> Self:
        """Makes the section from a dict that may also hold `env`, the environment's name, and `selfplay`."""
        return super().from_dict({name: value for name, value in given.items() if name not in ("env", "selfplay")})


SECTIONS = {
    config.section: config
    for config in (BaseConfig, VecConfig, TrainConfig, SelfplayConfig, LogConfig, SolveConfig, SweepConfig)
}
