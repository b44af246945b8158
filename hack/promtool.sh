#!/usr/bin/env bash
# Prints where promtool is: the one in the PATH, or the one of Debian's package prometheus, which is unpacked into the cache and not installed.
set -euo pipefail
if command -v promtool; then exit; fi
promtool=${XDG_CACHE_HOME:-$HOME/.cache}/node-firmware-operator/promtool
if [ ! -x "$promtool" ]; then
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	cd "$work"
	if ! apt-get -qq download prometheus >&2; then
		echo 'promtool: apt could not download the package prometheus; run apt-get update, or put a promtool into the PATH' >&2
		exit 1
	fi
	dpkg --fsys-tarfile prometheus_*.deb | tar -x ./usr/bin/promtool
	install -D usr/bin/promtool "$promtool"
fi
echo "$promtool"
