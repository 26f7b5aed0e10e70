# docker build -t skillwright . && docker run --rm -v "$PWD":/work skillwright demo --half text
FROM python:3.12-slim
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
RUN pip install --no-cache-dir -c constraints.txt . && useradd --uid 1000 --create-home skillwright
USER 1000
# Runs are written to /work/runs: mount a folder there that this user (1000) may write.
WORKDIR /work
ENTRYPOINT ["skillwright"]
CMD ["--help"]
