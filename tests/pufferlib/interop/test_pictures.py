"""Pictures for other libraries, which nobody should have to close before something else is drawn."""

import pufferlib


def test_pictures_and_a_video_take_turns_on_the_one_screen(tmp_path):
    env = pufferlib.make_gymnasium("puffer_pong", render_mode="rgb_array")
    other = pufferlib.make_gymnasium("puffer_squared", render_mode="rgb_array")
    env.reset(seed=0)
    other.reset(seed=0)
    before = env.render()
    assert other.render().shape != before.shape
    pufferlib.record(pufferlib.load_agent("puffer_pong"), "puffer_pong", tmp_path / "pong.gif", max_steps=3)
    assert (env.render() == before).all()
    env.close()
    other.close()
