"""Link options that send this project's system calls through tests/support/fault_calls.cc."""

_WRAPPED = [
    "accept4",
    "epoll_ctl",
    "fcntl",
    "open",
    "openat",
    "pipe2",
    "recvmsg",
    "sendmsg",
]

FAULT_LINKOPTS = ["-Wl,--wrap=" + call for call in _WRAPPED]
