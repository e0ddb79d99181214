# One image for web, worker and commands; compose.yaml shows how they run.
FROM python:3.11-slim AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1
COPY requirements.lock requirements-mcp.lock requirements-otel.lock requirements-permits.lock ./
RUN python -m venv /venv && /venv/bin/pip install --no-cache-dir --require-hashes -r requirements.lock
ARG EXTRA=
RUN for extra in $EXTRA; do \
    /venv/bin/pip install --no-cache-dir --require-hashes -r "requirements-$extra.lock" || exit; done

FROM python:3.11-slim
RUN useradd --system --uid 10001 --home-dir /app opsconsole \
    && install --directory --owner=opsconsole --mode=0700 /data /heads
COPY --from=build /venv /venv
WORKDIR /app
COPY manage.py ./
COPY scripts/serve scripts/probe scripts/
COPY static static
COPY templates templates
COPY opsconsole opsconsole
COPY agents agents
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 OPSCONSOLE_DATA_DIR=/data
VOLUME /data /heads
USER opsconsole
EXPOSE 8000
CMD ["scripts/serve"]
