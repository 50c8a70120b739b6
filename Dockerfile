FROM python:3.13-slim AS build
WORKDIR /src
COPY pyproject.toml requirements-dev.lock README.md LICENSE ./
COPY fleetscope fleetscope
COPY ingest ingest
COPY processors processors
COPY simulator simulator
COPY views views
COPY grafana grafana
COPY sql sql
RUN python -m venv /opt/fleetscope \
 && /opt/fleetscope/bin/pip install --no-cache-dir --constraint requirements-dev.lock .

FROM python:3.13-slim
COPY --from=build /opt/fleetscope /opt/fleetscope
ENV PATH=/opt/fleetscope/bin:$PATH PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
WORKDIR /tmp
ENTRYPOINT ["fleetscope"]
CMD ["--help"]
