"""Atari games by their names."""

from __future__ import annotations

from typing import Any

from typing_extensions import override

from pufferlib.errors import APIUsageError
from pufferlib.families.atari_game import build_atari, register_games
from pufferlib.families.atari_vector import SETTINGS, make_atari_vector
from pufferlib.families.gymnasium_entry import GymnasiumEntry, GymnasiumFamily
from pufferlib.vector import GymnasiumVector, Vector

_SHARED = {"num_envs", "num_workers", "batch_size", "seed"}  # keywords of all vectors


class AtariEntry(GymnasiumEntry):
    """A game; it trains in ale-py's own vector environment, unless another backend or a setting of others is given."""

    @override
    def make_vector(self, env_kwargs: dict[str, Any], **keywords: Any) -> Vector:
        backend = keywords.get("backend", "auto")
        is_asked_for = backend in (GymnasiumVector, GymnasiumVector.__name__)
        others = sorted(env_kwargs.keys() - SETTINGS)
        others += [name for name in ("step_timeout_seconds",) if keywords.get(name) is not None]
        if is_asked_for and others:
            raise APIUsageError(
                f"ale-py's vector environment takes the settings {', '.join(sorted(SETTINGS))}, got {others[0]}; "
                "use the backend 'auto'"
            )
        if is_asked_for or (backend == "auto" and not others):
            shared = {name: keywords[name] for name in _SHARED & keywords.keys()}
            return make_atari_vector(self.name, **shared, **env_kwargs)
        return super().make_vector(env_kwargs, **keywords)


ATARI = GymnasiumFamily(
    "atari",
    "ALE/Pong-v5",
    pattern=r"ALE/|\w+NoFrameskip-v\d$",
    listed="ALE/",
    packages=("ale_py", "cv2"),
    extra="atari",
    register=register_games,
    recipe="atari",
    builder=build_atari,
    fixed=frozenset({"game", "obs_type", "sound_obs"}),
    entry_class=AtariEntry,
)
