#!/usr/bin/env bash
# need.sh PACKAGE=CHECK ... – CHECK is a shell command that succeeds when the thing is there. Where
# it fails, installs that Debian package. Does nothing and asks nobody when all is there.
set -euo pipefail

absent() { ! bash -c "${1#*=}" >/dev/null 2>&1; }

missing=()
for need in "$@"; do
    if absent "$need"; then missing+=("${need%%=*}"); fi
done
[ ${#missing[@]} -gt 0 ] || exit 0

if ! command -v apt-get >/dev/null 2>&1; then
    echo "missing, and this is no Debian: install what Debian calls ${missing[*]}" >&2
    exit 1
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if sudo -n true 2>/dev/null || { [ -t 0 ] && command -v sudo >/dev/null 2>&1; }; then
        as_root=(sudo)
    else
        echo "missing system packages, and no right to install them. As root, run:" >&2
        echo "    apt-get install ${missing[*]}" >&2
        exit 1
    fi
fi

echo "installing ${missing[*]}" >&2
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq)
"${apt[@]}" update >&2
"${apt[@]}" install -y --no-install-recommends "${missing[@]}" >/dev/null

for need in "$@"; do
    if absent "$need"; then
        echo "still missing after installing ${need%%=*}: ${need#*=}" >&2
        exit 1
    fi
done
