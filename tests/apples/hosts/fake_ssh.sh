#!/bin/sh
# An ssh that reaches no other machine: it runs the command here, or fails as ssh does, by the host's name.
while [ "$1" != "--" ]; do shift; done
host=$2
shift 2
say() { echo "$1" >&2; exit 255; }
case $host in
    locked) say "root@locked: Permission denied (publickey)." ;;
    stranger) say "No ED25519 host key is known for stranger and you have requested strict checking.
Host key verification failed." ;;
    changed) say "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
Host key verification failed." ;;
    nameless) say "ssh: Could not resolve hostname nameless: Name or service not known" ;;
    off) say "ssh: connect to host off port 22: No route to host" ;;
    bare) echo "bash: line 1: $1: No such file or directory" >&2; exit 127 ;;
    dead) exit 255 ;;
    mute) exec sleep 600 ;;
    chatty) echo "Welcome to chatty" ;;
    prompting) printf 'Welcome> ' ;;
esac
exec sh -c "$*"
