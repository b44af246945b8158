#!/usr/bin/env bash
# Builds the site of a version in DIR/VERSION, beside those of other versions that are there, and has the first page lead to the newest:
# build.sh VERSION DIR [REF], where REF is the branch or tag that links to the repository name.
set -euo pipefail
version=$1 dir=$2 ref=${3:-main}
here=$(dirname "$(readlink -f "$0")")
if ! command -v mkdocs >/dev/null; then
	echo 'site: mkdocs is missing; as root: apt-get install --no-install-recommends mkdocs mkdocs-material' >&2
	exit 3 # which says that something is missing
fi
mermaid=mermaid@9.1.7 # what mkdocs-material of Debian 12 draws diagrams with; it would load it from elsewhere
digest=1b9f00203d58a17e58684b567d7488d152eb67a37892f36fc20d0123ccd41711
cache=${XDG_CACHE_HOME:-$HOME/.cache}/node-firmware-operator/site/$mermaid.js
if [ ! -s "$cache" ]; then
	mkdir -p "$(dirname "$cache")"
	work=$(mktemp -d "$(dirname "$cache")/XXXXXX")
	trap 'rm -rf "$work"' EXIT
	if ! (cd "$work" && npm pack --silent "$mermaid" >/dev/null && tar -xzf mermaid-*.tgz package/dist/mermaid.min.js); then
		echo "site: npm could not get $mermaid, which draws the diagrams" >&2
		exit 3
	fi
	sha256sum --check --quiet <<<"$digest  $work/package/dist/mermaid.min.js"
	mv "$work/package/dist/mermaid.min.js" "$cache"
fi
mkdir -p "$dir"
dir=$(readlink -f "$dir")
SITE_DIR=$dir/$version SITE_REF=$ref mkdocs build --quiet --config-file "$here/mkdocs.yml"
install -m 644 "$cache" "$dir/$version/assets/javascripts/mermaid.min.js"
cd "$dir"
# Releases come before what leads to one, which has a hyphen.
mapfile -t versions < <(find . -mindepth 2 -maxdepth 2 -name index.html -printf '%h\n' | sed 's,^\./,,' | sed 's/^[^-]*$/& 1/; s/^.*-.*$/& 0/' | sort -k2,2r -k1,1rV | cut -d' ' -f1)
{
	separator='['
	for v in "${versions[@]}"; do
		printf '%s{"version":"%s","title":"%s","aliases":[]}' "$separator" "$v" "$v"
		separator=,
	done
	printf ']\n'
} >versions.json
printf '<!doctype html><meta http-equiv="refresh" content="0; url=%s/index.html"><title>node-firmware-operator</title>\n' "${versions[0]}" >index.html
