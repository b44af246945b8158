#!/usr/bin/env bash
# Prints the directory with prometheus and promtool: that of the PATH, or one in the cache with those of Debian's package prometheus, which is
# not installed for that.
set -euo pipefail
if command -v prometheus promtool >/dev/null; then
	dirname "$(command -v promtool)"
	exit
fi
cache=${XDG_CACHE_HOME:-$HOME/.cache}/node-firmware-operator/prometheus
if [ ! -x "$cache/promtool" ]; then
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	cd "$work"
	if ! apt-get -qq -o APT::Sandbox::User=root download prometheus >&2; then
		echo 'prometheus: apt could not download the package; run apt-get update, or put prometheus and promtool into the PATH' >&2
		exit 1
	fi
	dpkg --fsys-tarfile prometheus_*.deb | tar -x ./usr/bin/prometheus ./usr/bin/promtool
	install -D -t "$cache" usr/bin/prometheus usr/bin/promtool
fi
echo "$cache"
