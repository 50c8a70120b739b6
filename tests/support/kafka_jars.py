"""The published jars of Apache Kafka, fetched once by Maven into a cache folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

KAFKA_VERSION = "4.1.1"
_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>fleetscope.tests</groupId><artifactId>kafka-jars</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{KAFKA_VERSION}</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency>
  </dependencies>
</project>
"""


def cache_folder() -> Path:
    """Where downloads of tests are kept: FLEETSCOPE_CACHE, else XDG_CACHE_HOME, else ~/.cache."""
    base = os.environ.get("FLEETSCOPE_CACHE") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "fleetscope"


def kafka_jars(timeout_s: float = 600) -> Path:
    """The folder with Kafka's jars; fetched when it is not there. RuntimeError: Maven could not."""
    target = cache_folder() / f"kafka-{KAFKA_VERSION}"
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="kafka-") as work:
        Path(work, "pom.xml").write_text(_POM)
        run = subprocess.run(
            ["mvn", "-q", "-B", "-f", str(Path(work, "pom.xml")), "dependency:copy-dependencies",
             f"-DoutputDirectory={work}/libs"],
            capture_output=True, text=True, timeout=timeout_s, check=False)
        if run.returncode:
            raise RuntimeError(f"Maven could not fetch Kafka {KAFKA_VERSION}: {(run.stdout + run.stderr)[-800:]}")
        try:
            Path(work, "libs").rename(target)
        except OSError:
            if not target.is_dir():  # another process won the race otherwise
                raise
    return target


def missing_for_jars() -> str | None:
    """What a broker from jars lacks on this machine, or None."""
    if not shutil.which("java"):
        return "no java on the path"
    cached = (cache_folder() / f"kafka-{KAFKA_VERSION}").is_dir()
    if not cached and not shutil.which("mvn"):
        return "no mvn on the path and no cached Kafka jars"
    return None
