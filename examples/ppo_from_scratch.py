"""PPO in one file, in plain torch, on `gymnasium.make_vec`: for those who write their own training loop.

Usage: python examples/ppo_from_scratch.py [iterations]
"""

import sys

import gymnasium
import numpy as np
import torch
from torch import nn

import pufferlib  # noqa: F401  # registers the environments with Gymnasium

NUM_ENVS, STEPS, EPOCHS, MINIBATCH = 64, 32, 10, 512
GAMMA, GAE_LAMBDA, CLIP, VALUE_COEFFICIENT, GRADIENT_NORM = 0.98, 0.9, 0.2, 0.5, 0.5

iterations = int(sys.argv[1]) if len(sys.argv) > 1 else 50
torch.manual_seed(0)

envs = gymnasium.wrappers.vector.RecordEpisodeStatistics(gymnasium.make_vec("pufferlib/cartpole", NUM_ENVS))
num_inputs, num_actions = envs.single_observation_space.shape[0], int(envs.single_action_space.n)


def network(outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(num_inputs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs))


actor, critic = network(num_actions), network(1)
parameters = [*actor.parameters(), *critic.parameters()]
optimizer = torch.optim.Adam(parameters, lr=2e-3, eps=1e-5)

observations = torch.zeros(STEPS, NUM_ENVS, num_inputs)
actions = torch.zeros(STEPS, NUM_ENVS, dtype=torch.int64)
rewards, logprobs, values, continues = (torch.zeros(STEPS, NUM_ENVS) for _ in range(4))


@torch.no_grad()
def collect(observation: np.ndarray) -> tuple[np.ndarray, list[float]]:
    """Plays STEPS steps into the arrays above; returns what is seen then, and the lengths of ended episodes."""
    lengths = []
    for t in range(STEPS):
        observations[t] = torch.from_numpy(observation)  # a copy: the environments write over theirs in the next step
        policy = torch.distributions.Categorical(logits=actor(observations[t]))
        actions[t] = policy.sample()
        logprobs[t], values[t] = policy.log_prob(actions[t]), critic(observations[t]).squeeze(-1)
        observation, reward, terminated, truncated, infos = envs.step(actions[t].numpy())
        rewards[t], continues[t] = torch.from_numpy(reward), torch.from_numpy(~(terminated | truncated)).float()
        for i in np.flatnonzero(truncated):  # what was cut off would have gone on from where it came to
            rewards[t, i] += GAMMA * critic(torch.from_numpy(infos["final_obs"][i])).item()
        lengths += infos["episode"]["l"][infos["_episode"]].tolist() if infos else []
    return observation, lengths


@torch.no_grad()
def advantages_after(observation: np.ndarray) -> torch.Tensor:
    """Generalized advantage estimates, arXiv 1506.02438 eq. 16."""
    advantages, following = torch.zeros(STEPS, NUM_ENVS), torch.zeros(NUM_ENVS)
    next_value = critic(torch.from_numpy(observation)).squeeze(-1)
    for t in reversed(range(STEPS)):
        delta = rewards[t] + GAMMA * next_value * continues[t] - values[t]
        advantages[t] = following = delta + GAMMA * GAE_LAMBDA * continues[t] * following
        next_value = values[t]
    return advantages


def learn(advantages: torch.Tensor) -> None:
    """Clipped policy gradient, arXiv 1707.06347 eq. 7, over shuffled minibatches."""
    rows = [part.flatten(0, 1) for part in (observations, actions, logprobs, advantages, advantages + values)]
    for indices in (part for _ in range(EPOCHS) for part in torch.randperm(STEPS * NUM_ENVS).split(MINIBATCH)):
        observation, action, old_logprob, advantage, target = (part[indices] for part in rows)
        ratio = (torch.distributions.Categorical(logits=actor(observation)).log_prob(action) - old_logprob).exp()
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        policy_loss = -torch.min(ratio * advantage, ratio.clamp(1 - CLIP, 1 + CLIP) * advantage).mean()
        value_loss = (critic(observation).squeeze(-1) - target).square().mean()
        optimizer.zero_grad()
        (policy_loss + VALUE_COEFFICIENT * value_loss).backward()
        nn.utils.clip_grad_norm_(parameters, GRADIENT_NORM)
        optimizer.step()


observation, _ = envs.reset(seed=0)
recent: list[float] = []
for iteration in range(iterations):
    observation, lengths = collect(observation)
    recent = (recent + lengths)[-100:]
    learn(advantages_after(observation))
    for group in optimizer.param_groups:
        group["lr"] = 2e-3 * (1 - (iteration + 1) / iterations)
    if recent and (iteration % 10 == 9 or iteration == iterations - 1):
        steps = (iteration + 1) * STEPS * NUM_ENVS
        print(f"{steps:8,} steps, the last {len(recent)} episodes {np.mean(recent):5.1f} long")
envs.close()
