# docker build -t pufferlib .                      torch for CPUs; with CUDA: --build-arg TORCH_INDEX=https://pypi.org/simple
# docker run --rm -it -v experiments:/work/experiments pufferlib puffer train puffer_breakout          and with --gpus all
FROM python:3.12 AS build
COPY . /source
RUN PUFFER_PORTABLE=1 pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /source

FROM python:3.12-slim
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --extra-index-url "$TORCH_INDEX" /wheels/*.whl \
    && useradd --create-home --uid 1000 puffer && install --directory --owner=puffer /work/experiments
USER 1000
WORKDIR /work
VOLUME /work/experiments
CMD ["puffer", "--help"]
