"""The configuration: defaults, then the environment's ini, then what the user changes.

`load_config` returns a nested dict to edit freely; `check_config` and the dataclasses of `schema` check it.
"""

from pufferlib.config.configuration import check_config as check_config, load_config as load_config
from pufferlib.config.schema import (
    BaseConfig as BaseConfig,
    LogConfig as LogConfig,
    SelfplayConfig as SelfplayConfig,
    SweepConfig as SweepConfig,
    TrainConfig as TrainConfig,
    VecConfig as VecConfig,
)
from pufferlib.config.sections import (
    check_section as check_section,
    env_settings as env_settings,
    require_sections as require_sections,
    require_whole as require_whole,
)
from pufferlib.config.sizes import (
    ResolvedTrainConfig as ResolvedTrainConfig,
    resolve_env_count as resolve_env_count,
    resolve_sizes as resolve_sizes,
)
