# GPU image. The torch wheel brings its CUDA libraries along; the host needs only a driver and the NVIDIA container toolkit.
#
#   docker build --tag variations .
#   docker run --rm --gpus all --volume "$PWD/runs:/app/runs" variations model=weighted trainer=gpu
#   docker run --rm --entrypoint python --volume "$PWD/runs:/app/runs" variations src/table.py sweep=quickstart
FROM python:3.11-slim-bookworm

# torch.compile compiles small C files when a model first runs; git records the state of a mounted checkout.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev git \
    && rm -rf /var/lib/apt/lists/*

RUN useradd --create-home --uid 1000 variations \
    && install --directory --owner=variations --group=variations /app /app/runs /app/cache
USER variations
WORKDIR /app

ENV PATH="/app/.venv/bin:$PATH" \
    PYTHONUNBUFFERED=1 \
    VARIATIONS_CACHE=/app/cache \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility

# Dependencies change rarely and the code often, so they are a separate layer, built with an empty package in place of the code.
RUN python -m venv .venv
COPY --chown=variations:variations pyproject.toml constraints.txt README.md LICENSE ./
RUN mkdir -p src/variations && touch src/variations/__init__.py
RUN .venv/bin/python -m pip install --no-input --disable-pip-version-check --no-cache-dir --constraint constraints.txt --editable '.[wandb,tensorboard,search,dashboard]'
COPY --chown=variations:variations . .

ENTRYPOINT ["python", "src/train.py"]
