#!/usr/bin/env bash
# Prints the path of an sshd: the one that is installed, else Debian's, unpacked (not installed: nothing is started, /etc is untouched) in FOLDER.
#
#   HOTLAP_SSHD=$(scripts/sshd.sh FOLDER)
set -euo pipefail
case ${1:-} in -*) echo "usage: scripts/sshd.sh FOLDER"; exit 2 ;; esac
found=$(PATH=$PATH:/usr/sbin command -v sshd || true)
[ -z "$found" ] || { printf '%s\n' "$found"; exit 0; }
folder=${1:?usage: scripts/sshd.sh FOLDER}
mkdir -p "$folder" && cd "$folder"
folder=$PWD
[ -x usr/sbin/sshd ] || {
    apt-get download -qq openssh-server libwrap0 >&2
    for package in ./*.deb; do dpkg -x "$package" .; done
}
printf '%s\n' "$folder/usr/sbin/sshd"
