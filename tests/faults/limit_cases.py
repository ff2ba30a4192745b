"""Too little of what the system lends: shared memory, file handles, memory, processes; on GPUs memory as well."""

from __future__ import annotations

import torch
from fault_case import BEGIN, NATIVE, WORKERS, Case, Ending, Fault

MEMORY = r"puffer: there is not enough memory \(.*\); have fewer or smaller environments, batches or layers"
HANDLES = r"puffer: .*[Tt]oo many open files.*; .*ulimit -n.*"
GPU_MEMORY = r"puffer: there is not enough memory on the GPU \(.*\); .*--train.minibatch-size.*--train.cpu-offload.*"
OUT_OF_GPU_MEMORY = ("torch.cuda.OutOfMemoryError", "CUDA out of memory. Tried to allocate 2.00 GiB.")


def no_gpu() -> str | None:
    """Why no memory of a GPU can run out."""
    return None if torch.cuda.is_available() else "there is no CUDA device"


CASES = [
    *(
        Case(
            f"{count} file handles",
            HANDLES,
            command=WORKERS,
            plants=(
                BEGIN,
                ("fault_plants", "limit", "RLIMIT_NOFILE", count),
            ),
            ending=Ending.ANEW,
            saboteurs={"errors_raw": Fault.CODE} if count == 12 else {},
        )
        for count in (8, 10, 12)
    ),
    Case(
        "no file handle left in the middle",
        r"(puffer: warning: .*Too many open files.*\n)+puffer: .*Too many open files.*",
        command=NATIVE.replace("checkpoint-interval 1", "checkpoint-interval 3"),
        plants=(("fault_plants", "limit_at", "rollout", 5, "RLIMIT_NOFILE", 3),),
        misses_logs=True,
        saboteurs={"failures_silent": Fault.CODE},
    ),
    Case(
        "shared memory refused",
        r"puffer: files and shared memory may not be as large as this needs \(.*File too large\); allow .*",
        command=WORKERS,
        plants=(
            BEGIN,
            ("fault_plants", "limit", "RLIMIT_FSIZE", 1000),
        ),
        ending=Ending.ANEW,
        saboteurs={"errors_raw": Fault.CODE},
    ),
    *(
        Case(
            f"{megabytes} MB of memory beyond the start",
            MEMORY,
            command=f"{NATIVE} --env.num-envs 4096 --train.bptt-horizon 512 --train.minibatch-size 65536",
            plants=(
                BEGIN,
                ("fault_plants", "limit", "RLIMIT_AS", megabytes << 20, True),
            ),
            ending=Ending.NONE,
            saboteurs={"errors_raw": Fault.CODE},
        )
        for megabytes in (64, 256)
    ),
    Case(
        "memory runs out in an update",
        MEMORY,
        plants=(("fault_plants", "fail", "update", 5, "builtins.MemoryError"),),
        saboteurs={"errors_raw": Fault.CODE},
    ),
    *(
        Case(
            f"no more {what}",
            r"puffer: no more processes or threads may be started \(.*\); allow more by `ulimit -u`, .*",
            command=WORKERS,
            plants=(("fault_plants", "fail", place, 1, *error),),
            ending=Ending.ANEW,
            saboteurs={"errors_raw": Fault.CODE},
        )
        for what, place, error in (
            ("processes", "forking", ("builtins.BlockingIOError", 11, "Resource temporarily unavailable")),
            ("threads", "rollout", ("builtins.RuntimeError", "can't start new thread")),
        )
    ),
    *(
        Case(
            f"memory of a GPU runs out at {moment}",
            GPU_MEMORY,
            plants=(("fault_plants", "fail", moment, count, *OUT_OF_GPU_MEMORY),),
            ending=Ending.ANEW if moment == "making" else Ending.EXACT,
            saboteurs={"errors_raw": Fault.CODE, "remedy_forgotten": Fault.MESSAGE},
        )
        for moment, count in (("making", 1), ("rollout", 5), ("update", 5))
    ),
    Case(
        "memory of a real GPU runs out",
        GPU_MEMORY,
        command=NATIVE.replace("device cpu", "device cuda")
        + " --env.num-envs 65536 --train.bptt-horizon 4096 --train.minibatch-size 4096",
        ending=Ending.NONE,
        obstacle=no_gpu,
    ),
]
