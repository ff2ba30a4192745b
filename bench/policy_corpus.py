"""Two dozen policies as people write them in torch, each with what computes it, and the environments that they see.

Each is made for an environment, as `CORPUS["name"].make_policy(env)`. Names of other projects say whose form it has;
the code was written for this corpus.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Dict, Discrete, Space
from torch import Tensor, nn
from torch.distributions import Normal
from torch.nn import functional

import pufferlib
from pufferlib import PufferEnv
from pufferlib.emulation.tensors import nativize
from pufferlib.models import LSTMWrapper, MinGRUWrapper, recur
from pufferlib.pytorch import layer_init

INPUTS, ACTIONS = 118, 3  # of breakout


class Drawn(gymnasium.Env):
    """Observations are drawn from their space, and the reward is the first number of an action."""

    def __init__(self, observations: Space, actions: Space):
        self.observation_space, self.action_space = observations, actions
        self.steps = 0

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.steps = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        self.steps += 1
        reward = float(np.asarray(action, np.float32).reshape(-1)[0])
        return self.observation_space.sample(), reward, self.steps % 10 == 0, False, {}


@dataclass(frozen=True)
class Case:
    """A policy and what it is for.

    Attributes:
        make_policy: for an environment.
        observations: of one agent; None is breakout.
        actions: likewise.
        by_torch: words of the reason why torch computes it; None where the kernel does.
    """

    make_policy: Callable[[PufferEnv], nn.Module]
    observations: Space | None = None
    actions: Space | None = None
    by_torch: str | None = None

    def make_env(self, num_envs: int) -> PufferEnv:
        """Makes breakout, or environments that draw such observations."""
        if self.observations is None:
            return pufferlib.make("puffer_breakout", num_envs=num_envs)
        return pufferlib.make(Drawn, num_envs=num_envs, observations=self.observations, actions=self.actions)


# ------------------------------------------------------------------------------------------------------ feed-forward


class CleanRL(nn.Module):
    """CleanRL's agent for classic control."""

    def __init__(self, env):
        super().__init__()
        self.critic = nn.Sequential(
            *(layer_init(nn.Linear(INPUTS, 64)), nn.Tanh(), layer_init(nn.Linear(64, 64)), nn.Tanh()),
            layer_init(nn.Linear(64, 1), std=1.0),
        )
        self.actor = nn.Sequential(
            *(layer_init(nn.Linear(INPUTS, 64)), nn.Tanh(), layer_init(nn.Linear(64, 64)), nn.Tanh()),
            layer_init(nn.Linear(64, ACTIONS), std=0.01),
        )

    def forward(self, observations):
        return self.actor(observations), self.critic(observations)


class CleanRLContinuous(nn.Module):
    """CleanRL's agent for continuous actions, whose deviation no observation changes."""

    def __init__(self, env):
        super().__init__()
        inputs, numbers = env.single_observation_space.shape[0], env.single_action_space.shape[0]
        self.critic = nn.Sequential(nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
        self.actor_mean = nn.Sequential(
            nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, numbers)
        )
        self.actor_logstd = nn.Parameter(torch.zeros(1, numbers))

    def forward(self, observations):
        mean = self.actor_mean(observations)
        return Normal(mean, torch.exp(self.actor_logstd.expand_as(mean))), self.critic(observations)


class CleanRLAtari(nn.Module):
    """CleanRL's network for four frames of Atari."""

    def __init__(self, env):
        super().__init__()
        self.network = nn.Sequential(
            *(nn.Conv2d(4, 32, 8, stride=4), nn.ReLU(), nn.Conv2d(32, 64, 4, stride=2), nn.ReLU()),
            *(nn.Conv2d(64, 64, 3, stride=1), nn.ReLU(), nn.Flatten(), nn.Linear(64 * 7 * 7, 512), nn.ReLU()),
        )
        self.actor, self.critic = nn.Linear(512, env.single_action_space.n), nn.Linear(512, 1)

    def forward(self, observations):
        hidden = self.network(observations / 255.0)
        return self.actor(hidden), self.critic(hidden)


class ResidualBlock(nn.Module):
    """Of IMPALA."""

    def __init__(self, channels):
        super().__init__()
        self.conv0 = nn.Conv2d(channels, channels, 3, padding=1)
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, images):
        change = self.conv0(functional.relu(images))
        return images + self.conv1(functional.relu(change))


class Impala(nn.Module):
    """IMPALA's residual network, of three stages."""

    def __init__(self, env):
        super().__init__()
        channels, height, width = env.single_observation_space.shape
        stages = []
        for filters in (16, 32, 32):
            stages += [nn.Conv2d(channels, filters, 3, padding=1), nn.MaxPool2d(3, stride=2, padding=1)]
            stages += [ResidualBlock(filters), ResidualBlock(filters)]
            channels, height, width = filters, (height + 1) // 2, (width + 1) // 2
        self.stages = nn.Sequential(*stages, nn.Flatten(), nn.ReLU())
        self.hidden = nn.Sequential(nn.Linear(channels * height * width, 256), nn.ReLU())
        self.actor, self.critic = nn.Linear(256, env.single_action_space.n), nn.Linear(256, 1)

    def forward(self, observations):
        hidden = self.hidden(self.stages(observations.float() / 255.0))
        return self.actor(hidden), self.critic(hidden)


class Trunk(nn.Module):
    """One layer of 128 with GELU, and two heads."""

    width = 128

    def __init__(self, env):
        super().__init__()
        self.body = self.make_body()
        self.actor, self.critic = nn.Linear(self.width, ACTIONS), nn.Linear(self.width, 1)

    def make_body(self):
        return nn.Sequential(nn.Linear(INPUTS, 128), nn.GELU())

    def forward(self, observations):
        hidden = self.body(observations)
        return self.actor(hidden), self.critic(hidden)


class Wide(Trunk):
    """Two layers of 512 with ELU, as Sample Factory's default for vectors."""

    width = 512

    def make_body(self):
        return nn.Sequential(nn.Linear(INPUTS, 512), nn.ELU(), nn.Linear(512, 512), nn.ELU())


class SampleFactoryPictures(nn.Module):
    """Sample Factory's simple convolutions, and one layer behind them."""

    def __init__(self, env):
        super().__init__()
        self.convolutions = nn.Sequential(
            *(nn.Conv2d(3, 32, 8, stride=4), nn.ELU(), nn.Conv2d(32, 64, 4, stride=2), nn.ELU()),
            *(nn.Conv2d(64, 128, 3, stride=2), nn.ELU()),
        )
        self.body = nn.Sequential(nn.Linear(128 * 2 * 4, 256), nn.ELU())
        self.critic, self.actor = nn.Linear(256, 1), nn.Linear(256, env.single_action_space.n)

    def forward(self, observations):
        hidden = self.convolutions(observations.float() / 255.0)
        hidden = self.body(hidden.flatten(1))
        return self.actor(hidden), self.critic(hidden).squeeze(-1)


class StableBaselines(nn.Module):
    """Stable-Baselines3's MlpPolicy: networks of its own for the policy and for the value, and heads on them."""

    def __init__(self, env):
        super().__init__()
        self.features = nn.Flatten()
        self.policy_net = nn.Sequential(nn.Linear(INPUTS, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.value_net = nn.Sequential(nn.Linear(INPUTS, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.action_net, self.value_head = nn.Linear(64, ACTIONS), nn.Linear(64, 1)

    def forward(self, observations):
        features = self.features(observations)
        return self.action_net(self.policy_net(features)), self.value_head(self.value_net(features)).squeeze(-1)


class TwoTowers(nn.Module):
    """A small actor beside a large critic, with a norm of what both see."""

    def __init__(self, env):
        super().__init__()
        self.norm = nn.LayerNorm(INPUTS)
        self.actor1, self.actor2 = nn.Linear(INPUTS, 32), nn.Linear(32, ACTIONS)
        self.critic1, self.critic2, self.critic3 = nn.Linear(INPUTS, 256), nn.Linear(256, 128), nn.Linear(128, 1)

    def forward(self, observations):
        seen = self.norm(observations)
        value = functional.leaky_relu(self.critic2(functional.leaky_relu(self.critic1(seen))))
        return self.actor2(torch.tanh(self.actor1(seen))), self.critic3(value)


class Normed(Trunk):
    """LayerNorm after each of two layers of 256."""

    width = 256

    def make_body(self):
        layers = [nn.Linear(INPUTS, 256), nn.LayerNorm(256), nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear(256, 256), nn.LayerNorm(256), nn.ReLU())


class GatedBlock(nn.Module):
    """RMSNorm and a gated layer around a stream."""

    def __init__(self, width):
        super().__init__()
        self.norm = nn.RMSNorm(width)
        self.up, self.gate, self.down = nn.Linear(width, 256), nn.Linear(width, 256), nn.Linear(256, width)

    def forward(self, hidden):
        normal = self.norm(hidden)
        return hidden + self.down(self.up(normal) * functional.silu(self.gate(normal)))


class Residual(nn.Module):
    """Two blocks of RMSNorm and a gated layer around a stream of 128."""

    def __init__(self, env):
        super().__init__()
        self.first = nn.Linear(INPUTS, 128)
        self.blocks = nn.ModuleList([GatedBlock(128), GatedBlock(128)])
        self.actor, self.critic = nn.Linear(128, ACTIONS), nn.Linear(128, 1)

    def forward(self, observations):
        hidden = self.first(observations)
        for block in self.blocks:
            hidden = block(hidden)
        return self.actor(hidden), self.critic(hidden)


class Parts(nn.Module):
    """The ball and the bricks through layers of their own."""

    def __init__(self, env):
        super().__init__()
        self.state, self.bricks = nn.Linear(10, 64), nn.Linear(INPUTS - 10, 64)
        self.body = nn.Linear(128, 64)
        self.actor, self.critic = nn.Linear(64, ACTIONS), nn.Linear(64, 1)

    def forward(self, observations):
        seen = torch.cat([self.state(observations[:, :10]), self.bricks(observations[:, 10:])], dim=1)
        hidden = functional.relu(self.body(functional.relu(seen)))
        return self.actor(hidden), self.critic(hidden)


class EntityAttention(nn.Module):
    """A block of a transformer over eight entities, of which some are absent, and their mean."""

    def __init__(self, env):
        super().__init__()
        self.heads = 4
        _, features = env.single_observation_space.shape
        self.embed = nn.Linear(features, 32)
        self.norm1, self.norm2 = nn.LayerNorm(32), nn.LayerNorm(32)
        self.query, self.key, self.value, self.out = (nn.Linear(32, 32) for _ in range(4))
        self.feed_forward = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))
        self.actor, self.critic = nn.Linear(32, env.single_action_space.n), nn.Linear(32, 1)

    def forward(self, observations):
        rows, entities, _ = observations.shape
        hidden = self.embed(observations)
        normal = self.norm1(hidden)
        query = self.query(normal).view(rows, entities, self.heads, 8).transpose(1, 2)
        key = self.key(normal).view(rows, entities, self.heads, 8).transpose(1, 2)
        value = self.value(normal).view(rows, entities, self.heads, 8).transpose(1, 2)
        is_absent = observations[:, :, 0] < -0.5
        scores = query @ key.transpose(-2, -1) / math.sqrt(8)
        scores = scores.masked_fill(is_absent[:, None, None, :], -1e9)
        attended = (scores.softmax(dim=-1) @ value).transpose(1, 2).reshape(rows, entities, 32)
        hidden = hidden + self.out(attended)
        hidden = hidden + self.feed_forward(self.norm2(hidden))
        pooled = hidden.mean(dim=1)
        return self.actor(pooled), self.critic(pooled)


class DeepSet(nn.Module):
    """Each entity through the same layers, and the largest and the mean of all."""

    def __init__(self, env):
        super().__init__()
        _, features = env.single_observation_space.shape
        self.each = nn.Sequential(nn.Linear(features, 64), nn.ReLU(), nn.Linear(64, 64))
        self.body = nn.Sequential(nn.Linear(128, 64), nn.ReLU())
        self.actor, self.critic = nn.Linear(64, env.single_action_space.n), nn.Linear(64, 1)

    def forward(self, observations):
        each = self.each(observations)
        hidden = self.body(torch.cat([each.max(dim=1).values, each.mean(dim=1)], dim=-1))
        return self.actor(hidden), self.critic(hidden)


class Categories(nn.Module):
    """An embedding of the kinds of two things, a one-hot of a third, and a number beside them."""

    def __init__(self, env):
        super().__init__()
        kinds, _, others, self.most = map(int, env.single_observation_space.high - env.single_observation_space.low + 1)
        self.others = others
        self.kinds = nn.Embedding(kinds, 16)
        self.body = nn.Linear(2 * 16 + others + 1, 64)
        self.actor, self.critic = nn.Linear(64, env.single_action_space.n), nn.Linear(64, 1)

    def forward(self, observations):
        kinds = self.kinds(observations[:, :2].long()).flatten(1)
        others = functional.one_hot(observations[:, 2].long(), self.others).float()
        hidden = torch.cat([kinds, others, observations[:, 3:].float() / self.most], dim=1)
        hidden = functional.relu(self.body(hidden))
        return self.actor(hidden), self.critic(hidden)


class MixedDict(nn.Module):
    """A picture of bytes, numbers and a category, each through layers of its own."""

    def __init__(self, env):
        super().__init__()
        self.emulated = env.emulated
        self.sees = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 5 * 5, 64))
        self.feels = nn.Linear(5, 64)
        self.task = nn.Embedding(4, 64)
        self.head = nn.Linear(64, env.single_action_space.n + 1)

    def forward(self, observations):
        parts = nativize(observations, self.emulated)
        hidden = self.sees(parts["camera"].float() / 255.0) + self.feels(parts["joints"]) + self.task(parts["task"])
        output = self.head(functional.relu(hidden))
        return output[:, :-1], output[:, -1]


class TiedHeads(nn.Module):
    """Actor and critic behind one layer that each calls, and a first layer whose bias is another's too."""

    def __init__(self, env):
        super().__init__()
        self.actor_in, self.critic_in, self.shared = nn.Linear(INPUTS, 64), nn.Linear(INPUTS, 64), nn.Linear(64, 64)
        self.critic_in.bias = self.actor_in.bias
        self.actor, self.critic = nn.Linear(64, ACTIONS), nn.Linear(64, 1)

    def forward(self, observations):
        actor = torch.tanh(self.shared(torch.tanh(self.actor_in(observations))))
        critic = torch.tanh(self.shared(torch.tanh(self.critic_in(observations))))
        return self.actor(actor), self.critic(critic)


class FrozenEncoder(nn.Module):
    """An encoder that was trained before, behind constants that normalise what it sees; only the heads learn."""

    def __init__(self, env):
        super().__init__()
        self.register_buffer("mean", torch.full((INPUTS,), 0.5))
        self.register_buffer("deviation", torch.full((INPUTS,), 2.0))
        self.encoder = nn.Sequential(nn.Linear(INPUTS, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU())
        self.encoder.requires_grad_(False)
        self.actor, self.critic = nn.Linear(64, ACTIONS), nn.Linear(64, 1)

    def forward(self, observations):
        hidden = self.encoder((observations - self.mean) / self.deviation)
        return self.actor(hidden), self.critic(hidden)


# --------------------------------------------------------------------------------------------------------- recurrent


class Encoder(nn.Module):
    """In a recurrent wrapper of the library."""

    hidden_size = 128

    def __init__(self):
        super().__init__()
        self.body, self.norm = nn.Linear(INPUTS, 128), nn.LayerNorm(128)
        self.actor, self.critic = nn.Linear(128, ACTIONS), nn.Linear(128, 1)

    def encode_observations(self, observations):
        return functional.silu(self.norm(self.body(observations)))

    def decode_actions(self, hidden):
        return self.actor(hidden), self.critic(hidden)

    def forward(self, observations):
        return self.decode_actions(self.encode_observations(observations))


class Recurrent(nn.Module):
    """What the recurrent policies below have in common: an encoder, two heads, and a loop over the steps."""

    states = ("hidden",)

    def __init__(self, env, size=64):
        super().__init__()
        self.size = size
        self.encoder = nn.Linear(INPUTS, size)
        self.actor, self.critic = nn.Linear(size, ACTIONS), nn.Linear(size, 1)

    def initial_state(self, batch, device="cpu"):
        return {name: torch.zeros(batch, self.size, device=device) for name in self.states}

    def heads(self, hidden: Tensor):
        return self.actor(hidden), self.critic(hidden)


class Gru(Recurrent):
    """torch's GRUCell, stepped by the policy."""

    def __init__(self, env):
        super().__init__(env)
        self.cell = nn.GRUCell(64, 64)

    def forward_eval(self, observations, state):
        state["hidden"] = self.cell(torch.relu(self.encoder(observations)), state["hidden"])
        return self.heads(state["hidden"])

    def forward(self, observations, state):
        encoded, hidden, outputs = torch.relu(self.encoder(observations)), state["hidden"], []
        for step in range(observations.shape[1]):
            hidden = self.cell(encoded[:, step], hidden * ~state["resets"][:, step, None])
            outputs.append(hidden)
        return self.heads(torch.stack(outputs, 1))


class Recur(Gru):
    """The same cell, which runs over segments by the library's function."""

    def forward(self, observations, state):
        encoded = torch.relu(self.encoder(observations))
        hidden, _ = recur(self.cell, encoded, state["hidden"], state["resets"])
        return self.heads(hidden)


class CleanRLLSTM(Recurrent):
    """CleanRL's agent with an nn.LSTM, which sees one step after the other, and zeros where an episode begins."""

    states = ("hidden", "cell")

    def __init__(self, env):
        super().__init__(env)
        self.lstm = nn.LSTM(64, 64)

    def forward_eval(self, observations, state):
        encoded = torch.tanh(self.encoder(observations))
        states = state["hidden"].unsqueeze(0), state["cell"].unsqueeze(0)
        output, (hidden, cell) = self.lstm(encoded.unsqueeze(0), states)
        state["hidden"], state["cell"] = hidden.squeeze(0), cell.squeeze(0)
        return self.heads(output.squeeze(0))

    def forward(self, observations, state):
        encoded, outputs = torch.tanh(self.encoder(observations)), []
        states = state["hidden"].unsqueeze(0), state["cell"].unsqueeze(0)
        for step in range(observations.shape[1]):
            kept = ~state["resets"][:, step].view(1, -1, 1)
            output, states = self.lstm(encoded[:, step].unsqueeze(0), (states[0] * kept, states[1] * kept))
            outputs.append(output.squeeze(0))
        return self.heads(torch.stack(outputs, 1))


class SequenceGru(Recurrent):
    """An nn.GRU, batch first, stepped over the segment."""

    def __init__(self, env):
        super().__init__(env)
        self.gru = nn.GRU(64, 64, batch_first=True)

    def forward_eval(self, observations, state):
        encoded = torch.relu(self.encoder(observations))
        output, hidden = self.gru(encoded.unsqueeze(1), state["hidden"].unsqueeze(0))
        state["hidden"] = hidden.squeeze(0)
        return self.heads(output.squeeze(1))

    def forward(self, observations, state):
        encoded, hidden, outputs = torch.relu(self.encoder(observations)), state["hidden"].unsqueeze(0), []
        for step in range(observations.shape[1]):
            hidden = hidden * ~state["resets"][:, step].view(1, -1, 1)
            output, hidden = self.gru(encoded[:, step : step + 1], hidden)
            outputs.append(output)
        return self.heads(torch.cat(outputs, 1))


class HandLSTM(Recurrent):
    """An LSTM whose gates are written out."""

    states = ("hidden", "cell")

    def __init__(self, env):
        super().__init__(env)
        self.input_gates, self.hidden_gates = nn.Linear(64, 256), nn.Linear(64, 256)

    def step(self, encoded, hidden, cell):
        gates = self.input_gates(encoded) + self.hidden_gates(hidden)
        enter, forget, candidate, leave = gates.chunk(4, dim=-1)
        cell = torch.sigmoid(forget) * cell + torch.sigmoid(enter) * torch.tanh(candidate)
        return torch.sigmoid(leave) * torch.tanh(cell), cell

    def forward_eval(self, observations, state):
        encoded = torch.relu(self.encoder(observations))
        state["hidden"], state["cell"] = self.step(encoded, state["hidden"], state["cell"])
        return self.heads(state["hidden"])

    def forward(self, observations, state):
        encoded, outputs = torch.relu(self.encoder(observations)), []
        hidden, cell = state["hidden"], state["cell"]
        for step in range(observations.shape[1]):
            kept = ~state["resets"][:, step, None]
            hidden, cell = self.step(encoded[:, step], hidden * kept, cell * kept)
            outputs.append(hidden)
        return self.heads(torch.stack(outputs, 1))


class HandMinGRU(Recurrent):
    """A MinGRU in forward: a gate between the state and a candidate, neither of which sees the state."""

    def __init__(self, env):
        super().__init__(env)
        self.gate, self.candidate = nn.Linear(64, 64), nn.Linear(64, 64)

    def forward_eval(self, observations, state):
        encoded = functional.gelu(self.encoder(observations))
        gate = torch.sigmoid(self.gate(encoded))
        state["hidden"] = (1 - gate) * state["hidden"] + gate * self.candidate(encoded)
        return self.heads(state["hidden"])

    def forward(self, observations, state):
        encoded = functional.gelu(self.encoder(observations))
        gate, candidate = torch.sigmoid(self.gate(encoded)), self.candidate(encoded)
        hidden, outputs = state["hidden"], []
        for step in range(observations.shape[1]):
            hidden = hidden * ~state["resets"][:, step, None]
            hidden = (1 - gate[:, step]) * hidden + gate[:, step] * candidate[:, step]
            outputs.append(hidden)
        return self.heads(torch.stack(outputs, 1))


ENTITIES = Box(-1.0, 1.0, (8, 6), np.float32)
MIXED = Dict(
    {
        "camera": Box(0, 255, (3, 11, 11), np.uint8),
        "joints": Box(-1.0, 1.0, (5,), np.float32),
        "task": Discrete(4),
    }
)
CORPUS = {
    "CleanRL": Case(CleanRL),
    "CleanRLContinuous": Case(CleanRLContinuous, Box(-1.0, 1.0, (17,), np.float32), Box(-1.0, 1.0, (6,), np.float32)),
    "CleanRLAtari": Case(CleanRLAtari, Box(0, 255, (4, 84, 84), np.uint8), Discrete(4)),
    "Impala": Case(Impala, Box(0, 255, (3, 32, 40), np.uint8), Discrete(9)),
    "Trunk": Case(Trunk),
    "Wide": Case(Wide),
    "SampleFactoryPictures": Case(SampleFactoryPictures, Box(0, 255, (3, 60, 92), np.uint8), Discrete(5)),
    "StableBaselines": Case(StableBaselines),
    "TwoTowers": Case(TwoTowers),
    "Normed": Case(Normed),
    "Residual": Case(Residual),
    "Parts": Case(Parts),
    "EntityAttention": Case(EntityAttention, ENTITIES, Discrete(3)),
    "DeepSet": Case(DeepSet, ENTITIES, Discrete(3)),
    "Categories": Case(Categories, Box(0, np.array([8, 8, 4, 99]), dtype=np.int32), Discrete(3)),
    "MixedDict": Case(MixedDict, MIXED, Discrete(3)),
    "TiedHeads": Case(TiedHeads),
    "FrozenEncoder": Case(FrozenEncoder),
    "LSTM": Case(lambda env: LSTMWrapper(env, Encoder(), 128, 128)),
    "MinGRU": Case(lambda env: MinGRUWrapper(env, Encoder(), 128, 128)),
    "Gru": Case(Gru),
    "Recur": Case(Recur),
    "CleanRLLSTM": Case(CleanRLLSTM),
    "SequenceGru": Case(SequenceGru),
    "HandLSTM": Case(HandLSTM),
    "HandMinGRU": Case(HandMinGRU),
}
