# Runs a command in a private network, itself run by `unshare -rn sh -c`: loopback and one pair of virtual
# cables with an IPv4 and an IPv6 address, because libwebrtc gathers nothing on a machine with only loopback.
set -eu
PATH=$PATH:/usr/sbin:/sbin
ip link set lo up
ip link add v0 type veth peer name v1
ip addr add 10.80.0.1/24 dev v0
ip addr add fd80::1/64 dev v0 nodad
ip link set v0 up
ip link set v1 up
exec "$@"
