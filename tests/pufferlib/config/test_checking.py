import pytest

from pufferlib.config import (
    check_config,
    load_config,
)
from pufferlib.errors import PufferError

SQUARED = "puffer_squared"


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda args: args.update(policy_name="Defualt"), "policy_name must name a class.*'Default'"),
        (lambda args: args.update(rnn_name="Recurrent"), "takes env and policy, found no 'Recurrent'; .*LSTM"),
        (lambda args: args.update(policy_name="Head"), "takes env, found no 'Head'; there are Default$"),
        (lambda args: args.update(policy_name="Policy"), "found no 'Policy'; there are .*Default"),
        (lambda args: args["vec"].update(backend="PufferEnv"), "got 'PufferEnv'"),
        (lambda args: args.update(rnn_name="LTSM"), "rnn_name must name a class.*'LSTM'"),
        (lambda args: args.update(polcy_name="Default"), "did you mean 'policy_name'"),
        (lambda args: args["policy"].update(hiden_size=3), r"'hiden_size' in \[policy\]"),
        (lambda args: args["rnn"].update(hidden_size="big"), r"\[rnn\] hidden_size must be an integer"),
        (lambda args: args["env"].update(sise=3), "did you mean 'size'"),
        (lambda args: args["vec"].update(backend="nativ"), "did you mean 'Native'"),
        (lambda args: args["train"].update(gamma=None), "gamma must be"),
        (lambda args: args.update(env_name="puffer_sqared"), "puffer_squared"),
    ],
)
def test_check_config_finds_every_kind_of_mistake(models, edit, message):
    args = {**load_config(SQUARED), "rnn_name": "LSTM"}
    check_config(args)
    edit(args)
    with pytest.raises(PufferError, match=message):
        check_config(args)
