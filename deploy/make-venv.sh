#!/usr/bin/env bash
# Make the virtual environment $1 with the first Python of the supported range ($PYTHON, if set, is tried first).
set -euo pipefail
venv=$1
supported='import sys; raise SystemExit(not (3, 11) <= sys.version_info[:2] < (3, 15))'
without_venv=
for candidate in ${PYTHON:+"$PYTHON"} python3 python3.13 python3.12 python3.11 python3.14; do
    command -v "$candidate" >/dev/null 2>&1 || continue
    "$candidate" -c "$supported" >/dev/null 2>&1 || continue
    if ! "$candidate" -c 'import venv, ensurepip' >/dev/null 2>&1; then
        without_venv=$candidate
        continue
    fi
    echo "making $venv with $("$candidate" -V)" >&2
    exec "$candidate" -m venv "$venv"
done
if [ -n "$without_venv" ]; then
    echo "$without_venv has no venv module; on Debian or Ubuntu: apt-get install python3-venv" >&2
else
    echo "no Python 3.11 to 3.14 found; install one, or name it: make setup PYTHON=/path/to/python3.12" >&2
fi
exit 2
