"""The colours of everything that is drawn around an environment: red, green, blue, alpha."""

BACKGROUND = (6, 24, 24, 255)
PANEL = (12, 44, 44, 255)  # a shade above the background
EDGE = (28, 80, 80, 255)
CYAN = (0, 187, 187, 255)
DIM_CYAN = (0, 96, 96, 255)
RED = (187, 0, 0, 255)
WHITE = (241, 241, 241, 255)
GREY = (140, 165, 165, 255)
VEIL = (6, 24, 24, 225)  # over what lies below something that is to be read
SHADE = (6, 24, 24, 140)  # over what is not to be looked at
