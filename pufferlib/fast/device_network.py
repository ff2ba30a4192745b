"""A policy's layers for the kernel of a rollout: the sizes it is compiled for, and the weights in its order."""

from __future__ import annotations

import torch
from torch import Tensor

from pufferlib.extensions.network_layers import Layers, Linear, MinGRU

NUMBERS = {torch.uint8: "uint8_t", torch.int8: "int8_t", torch.int32: "int32_t", torch.float32: "float"}
"""Types of observations, in C."""

WIDEST = 128
"""Outputs of a layer, up to which the kernel is expected to be faster than torch's products on tensor cores: it
computes in float32, and every block reads all weights in every step."""

OUTPUTS_PER_THREAD = 4
"""A thread computes as many outputs of as many agents at once."""


class DeviceNetwork:
    """Linear and MinGRU layers of one width and a head; see extensions/device_network.h.

    `can_be_in_a_rollout` must hold of the layers.

    Attributes:
        num_parts: of a decision.
        draws_numbers: whether the parts are numbers of normal distributions; otherwise they are choices.
        weights: of all layers, in the kernel's order; filled by `pack`.
    """

    def __init__(self, layers: Layers, rounds: bool):  # whether weights and what layers give are rounded to bfloat16
        self.layers = layers
        self.num_parts = len(layers.parts)
        self.draws_numbers = layers.log_std is not None
        self._rounds = rounds
        *_, self._head = layers.layers
        self._encoder = [layer for layer in layers.layers[:-1] if isinstance(layer, Linear)]
        self._recurrent = [layer for layer in layers.layers if isinstance(layer, MinGRU)]
        self._width, self._inputs = self._encoder[0].weight.shape
        blocks = [(layer.weight, layer.bias, 1) for layer in self._encoder]
        blocks += [(layer.weight, None, 3) for layer in self._recurrent]
        blocks += [(self._head.weight, self._head.bias, 1)]
        sizes = [_block_size(weight, gates, rounds) for weight, _, gates in blocks]
        self.weights = self._head.weight.detach().new_zeros(sum(sizes) + 2 * self.num_parts)
        *parts, self._deviations = self.weights.split([*sizes, 2 * self.num_parts])
        self._blocks = [(part, *block) for part, block in zip(parts, blocks, strict=True)]

    @torch.no_grad()
    def pack(self) -> None:
        """Copies the parameters as they are now."""
        for part, weight, bias, gates in self._blocks:
            outputs, inputs = weight.shape[0] // gates, weight.shape[1]
            padded = _padded(outputs)
            if bias is not None:
                part[:outputs].copy_(bias)  # of one gate
            weights = part[gates * padded :].view(torch.bfloat16 if self._rounds else torch.float32)
            rows = weights.view(inputs, gates, padded)[..., :outputs]
            rows.copy_(weight.view(gates, outputs, inputs).permute(2, 0, 1))
        if self.draws_numbers:
            logarithms, deviations = self._deviations.view(2, -1)
            logarithms.copy_(self.layers.log_std)
            torch.exp(self.layers.log_std, out=deviations)

    def macros(self) -> dict[str, str]:
        """The macros of device_network.h."""
        return {
            "NETWORK_INPUTS": str(self._inputs),
            "NETWORK_WIDTH": str(self._width),
            "NETWORK_ENCODERS": str(len(self._encoder)),
            "NETWORK_RECURRENT": str(len(self._recurrent)),
            "NETWORK_PARTS": ", ".join(map(str, self.layers.parts)),
            "NETWORK_NUMBERS": str(int(self.draws_numbers)),
            "NETWORK_ROUNDS": str(int(self._rounds)),
            "NETWORK_ACTIVATION": f"activation_{self._encoder[0].activation}",
        }

    def shared_bytes(self, agents: int) -> int:
        """Size of NetworkMemory for a block of `agents`."""
        width, outputs = _padded(self._width), _padded(len(self._head.weight))
        states = max(len(self._recurrent), 1) * width
        floats = max(self._inputs, width) + width + states + outputs
        return agents * (4 * floats + 1)


def can_be_in_a_rollout(layers: Layers, observations: torch.dtype) -> bool:
    """Whether the kernel knows layers of these kinds, at most WIDEST wide, and observations of this type."""
    sees_numbers = not (layers.normalizer or layers.categories or layers.divides_integers)
    if observations not in NUMBERS or not sees_numbers or not _are_a_chain(layers):
        return False
    return layers.fit(layers.layers[0].weight.device.type)


def _are_a_chain(layers: Layers) -> bool:
    # Linear layers of one kind and width, MinGRU layers, and a head of the decision and the value.
    *body, head = layers.layers
    encoder = [layer for layer in body if type(layer) is Linear]
    recurrent = body[len(encoder) :]
    kinds = {(layer.activation, len(layer.weight)) for layer in encoder}
    return (
        [layer.inputs for layer in layers.layers] == [(index,) for index in range(len(layers.layers))]
        and len(kinds) == 1
        and len(encoder[0].weight) <= WIDEST
        and all(type(layer) is MinGRU for layer in recurrent)
        and (type(head), head.activation) == (Linear, "linear")
        and layers.decision == layers.value == len(layers.layers)
        and (layers.value_place, len(head.weight)) == (sum(layers.parts), sum(layers.parts) + 1)
    )


def _block_size(weight: Tensor, gates: int, rounds: bool) -> int:
    # Floats of a layer: a row of biases, and one of weights for each input, of which a float may hold two.
    row = gates * _padded(weight.shape[0] // gates)
    return row + weight.shape[1] * row // (2 if rounds else 1)


def _padded(outputs: int) -> int:
    return -(-outputs // OUTPUTS_PER_THREAD) * OUTPUTS_PER_THREAD
