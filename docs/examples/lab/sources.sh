#!/usr/bin/env bash
# Makes firmware images for the simulated network adapters of a lab and prints FirmwareSources for them:
#
#   docs/examples/lab/sources.sh /tmp/firmware-lab | kubectl apply -f -
#   docs/examples/lab/sources.sh /tmp/firmware-lab bad | kubectl apply -f -
#
# The second one is an image nothing is wrong with, of firmware that takes the links of its card down once it runs.
# The images are good for the simulated vendor tools and for nothing else.
set -euo pipefail
images=${1:?usage: sources.sh LAB-DIRECTORY [bad]}/images
mkdir -p "$images"

# image FILE VERSION PSID [LINE]: a header, padding to a multiple of 4 bytes, and the SHA-256 of both.
image() {
  local file=$1
  printf 'MTFWsimulated\nkind: nic\nversion: %s\npsid: %s\n%s\n' "$2" "$3" "${4:+$4$'\n'}" >"$file"
  while (($(wc -c <"$file") % 4)); do printf . >>"$file"; done
  printf "$(sha256sum <"$file" | cut -c-64 | sed 's/../\\x&/g')" >>"$file"
}

# source_of NAME VERSION PSID MODEL [LINE]
source_of() {
  local file=$images/$1.bin
  image "$file" "$2" "$3" "${5:-}"
  cat <<YAML
---
apiVersion: nodefirmware.io/v1alpha1
kind: FirmwareSource
metadata: {name: $1}
spec:
  files:
  - url: file://$file
    digest: sha256:$(sha256sum <"$file" | cut -c-64)
    images:
    - {class: NIC, vendor: "15b3", models: ["$4"], boardIDs: [$3], version: $2}
YAML
}

if [[ ${2:-} == bad ]]; then
  source_of cx7-2842 28.42.1000 MT_0000000834 1021 "links: down"
  exit
fi
source_of cx6dx-2240 22.40.1000 MT_0000000359 101d
source_of cx6dx-2241 22.41.1000 MT_0000000359 101d
source_of cx7-2841 28.41.1000 MT_0000000834 1021
