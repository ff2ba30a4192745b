"""Interop: the environments of this library in the interfaces of others.

Importing it registers the Ocean environments with Gymnasium: `pufferlib/breakout` is `puffer_breakout`.
"""

from pufferlib.interop.registration import register_environments

register_environments()
