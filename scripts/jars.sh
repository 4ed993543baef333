#!/usr/bin/env bash
# Prints the folder of the jars that a pom names; fetches them once.
#
#   scripts/jars.sh FOLDER NAME [MAVEN ARGS]
#
# FOLDER has pom.xml and jars.sha256, the sums of the jars. They come into a folder of their own in
# ~/.cache/onefold, whose name begins with NAME.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=${ONEFOLD_CACHE:-$HOME/.cache/onefold}

[ $# -ge 2 ] || {
    sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0" >&2
    exit 2
}
pinned=$1 name=$2
shift 2
key=$(cat "$pinned/pom.xml" "$pinned/jars.sha256" | sha256sum | cut -c1-12)
folder=$cache/$name-$key
if [ ! -e "$folder/complete" ]; then
    mkdir -p "$cache"
    (
        flock 9 # two clones may get here at once
        [ ! -e "$folder/complete" ] || exit 0
        "$here/need.sh" "maven=command -v mvn" >&2
        echo "jars.sh: fetching jars into $folder" >&2
        rm -rf -- "$folder"
        mkdir -p "$folder"
        mvn --batch-mode --quiet --strict-checksums --file "$pinned/pom.xml" \
            org.apache.maven.plugins:maven-dependency-plugin:3.9.0:copy-dependencies \
            -DincludeScope=runtime "-DoutputDirectory=$folder" "$@" >&2
        (cd "$folder" && sha256sum --check --quiet --strict "$pinned/jars.sha256") >&2
        touch "$folder/complete"
    ) 9>"$cache/jars.lock"
fi
echo "$folder"
