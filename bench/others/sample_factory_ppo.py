"""Sample Factory's APPO by the command of its documentation, on the CPU; see bench/others.py."""

import json
import re
import subprocess
import sys
import tempfile
import time

task, steps, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
TRAINING = "--algo=APPO --use_rnn=False --num_workers=2 --num_envs_per_worker=20 --recurrence=1 --with_vtrace=False"
TRAINING += " --batch_size=512 --reward_scale=0.1 --device=cpu"
PLAY = "--algo=APPO --no_render --eval_deterministic=True --max_num_episodes=20 --device=cpu"

with tempfile.TemporaryDirectory() as folder:
    run = [f"--env={task}", f"--train_dir={folder}", "--experiment=others"]
    command = [sys.executable, "-m", "sf_examples.train_gym_env", *run, *TRAINING.split()]
    began = time.time()
    done = subprocess.run(
        [*command, f"--seed={seed}", f"--train_for_env_steps={steps}"], capture_output=True, text=True
    )
    seconds = time.time() - began
    if done.returncode:
        sys.exit((done.stdout + done.stderr)[-600:])
    command = [sys.executable, "-m", "sf_examples.enjoy_gym_env", *run, *PLAY.split()]
    played = subprocess.run(command, capture_output=True, text=True)
    text = done.stdout + done.stderr
    taken = max(map(int, re.findall(r"Total num frames: (\d+)", text)), default=steps)
    found = re.findall(r"Avg episode reward: (-?[\d.]+)", played.stdout + played.stderr)
    if not found:  # its exit status is not 0 even where all went well
        sys.exit((played.stdout + played.stderr)[-600:])
print(json.dumps({"steps": taken, "seconds": seconds, "start": 0.0, "score": float(found[-1])}))
