#!/usr/bin/env bash
# Copy the settings file $1 to $2 and give every empty ..._PASSWORD a random value. Never overwrites.
set -euo pipefail
umask 077
[ -e "$2" ] && { echo "$2 is there already" >&2; exit 2; }
while IFS= read -r line || [ -n "$line" ]; do
    case $line in
        [A-Z]*_PASSWORD=) line=$line$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n') ;;
    esac
    printf '%s\n' "$line"
done <"$1" >"$2.new"
mv "$2.new" "$2"
echo "wrote $2 with random passwords; only you can read it" >&2
