#!/usr/bin/env bash
# Runs the command lines of the drivers against the vendors' tools of Debian releases: hack/tools-contract.sh SUITE...
# Each release is unpacked below the cache by this machine's apt, which verifies it, and entered with chroot. It needs root and a mirror.
# New versions of tools are recorded in internal/testing/toolcontract/testdata with UPDATE_GOLDEN=1.
set -euo pipefail
cd "$(dirname "$0")/.."
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/node-firmware-operator/debian
packages=(fwupd mstflint nvme-cli sg3-utils pciutils kmod python3 dash coreutils debianutils findutils grep sed libc-bin)
tests=$(mktemp -d)
trap 'rm -rf "$tests"' EXIT
CGO_ENABLED=0 go test -c -o "$tests/contract" ./internal/testing/toolcontract
CGO_ENABLED=0 go test -c -o "$tests/fwupd" ./pkg/driver/fwupd

unpack() { # SUITE ROOT
	local state=$2.apt
	mkdir -p "$state"/{lists/partial,archives/partial,parts} "$2"/{proc,sys,dev,tmp,etc,run,src,tests,root,var/lib/fwupd,usr/{bin,sbin,lib,lib64}}
	for dir in bin sbin lib lib64; do ln -sfn "usr/$dir" "$2/$dir"; done
	: >"$state/status"
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $1 main" >"$state/sources.list"
	local options=(-qq -o "Dir::Etc::sourcelist=$state/sources.list" -o "Dir::Etc::sourceparts=$state/parts" -o "Dir::State::lists=$state/lists"
		-o "Dir::State::status=$state/status" -o "Dir::Cache::archives=$state/archives" -o APT::Install-Recommends=false -o APT::Sandbox::User=root)
	apt-get "${options[@]}" update
	apt-get "${options[@]}" -y --download-only install "${packages[@]}"
	for package in "$state"/archives/*.deb; do dpkg --fsys-tarfile "$package" | tar -x -C "$2" --keep-directory-symlink; done
	ln -sf dash "$2/usr/bin/sh" # as the scripts of packages would
	ln -sf which.debianutils "$2/usr/bin/which"
	ldconfig -r "$2"
	rm -rf "$state"
}

enter() { # ROOT: fwupd from 2.1 on reads the identity of the machine from /sys/class/dmi/id, which a virtual one may lack
	mount -t proc proc "$1/proc"
	mount --rbind /sys "$1/sys"
	mount --rbind /dev "$1/dev"
	mount -t tmpfs tmpfs "$1/run"
	mount -t tmpfs tmpfs "$1/sys/class"
	mkdir -p "$1/run/lock" "$1/sys/class/dmi/id"
	echo Simulated | tee "$1"/sys/class/dmi/id/{sys,bios}_vendor >/dev/null
	echo 2.10.2 >"$1/sys/class/dmi/id/bios_version"
	mount --bind "$PWD" "$1/src"
	mount --bind "$2" "$1/tests"
	chroot "$1" /usr/bin/env -i PATH=/usr/sbin:/usr/bin HOME=/root LC_ALL=C "UPDATE_GOLDEN=${UPDATE_GOLDEN:-}" sh -c '
		cd /src/internal/testing/toolcontract && /tests/contract -test.run "TestRealToolsKeepContract|TestFwupdtools" -test.v &&
		cd /src/pkg/driver/fwupd && /tests/fwupd -test.run "TestReal|TestTheReal" -test.v'
}
export -f enter

for suite in "$@"; do
	root=$cache/$suite
	[ -e "$root/usr/bin/fwupdtool" ] || unpack "$suite" "$root"
	echo "== Debian $suite"
	unshare --mount bash -euc 'enter "$@"' enter "$root" "$tests" 2>&1 | tr '\r' '\n' | grep -vE '^=== RUN|^(Loading|Idle|$)' || exit 1
done
