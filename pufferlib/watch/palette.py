"""The colours of everything that is drawn around an environment: those of the games, and shades of them."""

from pufferlib.ocean.screen import BACKGROUND, CYAN, PANEL, RED, WHITE

__all__ = ["BACKGROUND", "CYAN", "DIM_CYAN", "EDGE", "GREY", "PANEL", "RED", "SHADE", "VEIL", "WHITE"]

EDGE = (28, 80, 80)
DIM_CYAN = (0, 96, 96)
GREY = (140, 165, 165)
VEIL = (*BACKGROUND, 225)  # over what lies below something that is to be read
SHADE = (*BACKGROUND, 140)  # over what is not to be looked at
