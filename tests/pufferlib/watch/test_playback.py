import pytest

from pufferlib.watch.controls import FASTEST, HOLD_SECONDS, SLOWEST, Playback


def test_time_becomes_steps_and_the_motion_between_them():
    playback = Playback(10.0)
    assert (playback.steps_due, playback.progress) == (1, 0.0)
    playback.advance(0.025)
    assert (playback.steps_due, playback.progress) == (1, pytest.approx(0.25))
    playback.advance(0.075)
    assert (playback.steps_due, playback.progress) == (1, 1.0)  # the second step begins with the next moment
    playback.advance(0.01)
    assert (playback.steps_due, playback.progress) == (2, pytest.approx(0.1))


def test_a_late_picture_loses_no_time():
    often, seldom = Playback(15.0), Playback(15.0)
    for _ in range(600):
        often.advance(1 / 60)
    seldom.advance(10.0)
    assert often.steps_due == seldom.steps_due == 150


def test_nothing_moves_while_it_stands():
    playback = Playback(10.0)
    playback.advance(0.33)
    playback.toggle_pause()
    assert not playback.advance(5.0) and playback.position == pytest.approx(3.3)
    playback.toggle_pause()
    assert playback.advance(0.1) and playback.position == pytest.approx(4.3)


def test_a_single_step_runs_to_its_end_and_stands():
    playback = Playback(10.0)
    playback.toggle_pause()
    playback.step()
    playback.advance(0.05)
    assert (playback.is_paused, playback.steps_due, playback.progress) == (False, 1, pytest.approx(0.5))
    playback.advance(0.3)
    assert (playback.is_paused, playback.position) == (True, 1.0)
    playback.step()
    playback.step()  # pressed twice
    playback.advance(1.0)
    assert (playback.is_paused, playback.position) == (True, 3.0)


def test_a_single_step_from_the_middle_of_one_ends_that_one():
    playback = Playback(10.0)
    playback.advance(0.34)
    playback.step()
    playback.advance(1.0)
    assert (playback.is_paused, playback.position) == (True, 4.0)


def test_it_goes_on_from_the_middle_of_a_single_step():
    playback = Playback(10.0)
    playback.step()
    playback.advance(0.05)
    playback.toggle_pause()
    playback.advance(1.0)
    assert (playback.is_paused, playback.position) == (False, pytest.approx(10.5))


def test_speed_has_its_limits():
    playback = Playback(10.0)
    for _ in range(20):
        playback.change_speed(2)
    assert playback.speed == FASTEST
    playback.advance(1.0)
    assert playback.position == 640.0
    for _ in range(20):
        playback.change_speed(1 / 2)
    assert playback.speed == SLOWEST
    playback.advance(1.0)
    assert playback.position == pytest.approx(641.25)


@pytest.mark.parametrize("frames_per_second, steps_per_second", [(60, 15), (30, 50), (24, 7.5), (59.94, 50)])
def test_a_frame_of_a_video_shows_its_own_moment(frames_per_second, steps_per_second):
    playback = Playback(steps_per_second)
    for frame in range(1, 500):
        playback.advance(1 / frames_per_second)
        assert playback.position == pytest.approx(frame * steps_per_second / frames_per_second, abs=1e-6)


def test_the_last_moment_is_held_and_then_it_is_over():
    playback = Playback(10.0)
    playback.end = 7
    playback.advance(0.7 + HOLD_SECONDS - 0.01)
    assert (playback.steps_due, playback.progress, playback.is_over) == (7, 1.0, False)
    playback.advance(0.02)
    assert (playback.steps_due, playback.progress, playback.is_over) == (7, 1.0, True)


def test_time_that_could_not_be_played_is_taken_back():
    playback = Playback(10.0)
    playback.advance(5.0)
    playback.fall_back(12)
    assert (playback.steps_due, playback.progress) == (12, 1.0)
    playback.fall_back(40)  # never forward
    assert playback.position == 12.0


def test_a_restart_keeps_the_speed_alone():
    playback = Playback(10.0)
    playback.change_speed(2)
    playback.end = 3
    playback.advance(9.0)
    playback.toggle_pause()
    playback.restart()
    assert (playback.is_paused, playback.speed, playback.seconds, playback.is_over) == (False, 2.0, 0.0, False)


def test_a_video_in_time_lapse_shows_more_of_the_game_in_a_frame_and_holds_its_end_as_long():
    playback = Playback(10.0, speed=4.0)
    playback.advance(1 / 30)
    assert playback.seconds == pytest.approx(4 / 30)
    playback.end = 20
    frames = 1
    while not playback.is_over:
        playback.advance(1 / 30)
        frames += 1
    assert frames == 15 + 15  # two seconds of the game at four times its speed, and half a second of standing


def test_a_window_may_begin_at_another_speed():
    playback = Playback(10.0, speed=0.5)
    playback.advance(1.0)
    assert playback.seconds == 0.5
    playback.change_speed(2)
    assert playback.speed == 1.0
