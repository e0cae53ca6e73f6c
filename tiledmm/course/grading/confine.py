"""Limits of a process that is about to run a student's kernel, which that process cannot lift again."""

from __future__ import annotations

from dataclasses import dataclass

# Kernels need none of these. A compiler does, so that another process runs it, which was started before.
_REFUSED = (
    "fork", "vfork", "execve", "execveat", "socket", "socketpair", "connect", "bind", "listen", "accept", "accept4",
    "ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "mount", "umount2", "unshare", "setns",
    "pivot_root", "chroot", "bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "keyctl", "add_key",
    "request_key",
)  # fmt: skip

_CLONE_THREAD = 0x00010000
_EPERM, _ENOSYS = 1, 38

# A thread is a process to the kernel. The simulator and NVRTC start some, the compiler's process a few.
_PROCESSES = 256

# Size of a file that it writes: libraries of kernels, and what it prints.
_FILE_BYTES = 2**26


@dataclass(frozen=True, slots=True)
class Limits:
    """What a process may use.

    Attributes:
        seconds: Seconds of processor time.
        memory: Address space of each process, in bytes.
    """

    seconds: float
    memory: int

    def apply(self) -> None:
        """Set the limits for this process, and those that it starts."""
        import resource  # which Windows does not have

        seconds = int(self.seconds) + 1
        for kind, value in (
            (resource.RLIMIT_CPU, seconds), (resource.RLIMIT_AS, self.memory), (resource.RLIMIT_FSIZE, _FILE_BYTES),
            (resource.RLIMIT_NPROC, _PROCESSES), (resource.RLIMIT_CORE, 0),
        ):  # fmt: skip
            _, most = resource.getrlimit(kind)
            value = value if most == resource.RLIM_INFINITY else min(value, most)
            resource.setrlimit(kind, (value, value))


def refuse_processes_and_sockets() -> None:
    """Have the kernel of the system refuse, for this process, to start programs and to open sockets; threads may start.

    Raises:
        ImportError: If pyseccomp is not installed.
        RuntimeError: If there is no libseccomp.
    """
    import pyseccomp as seccomp

    rules = seccomp.SyscallFilter(seccomp.ALLOW)
    rules.set_attr(seccomp.Attr.CTL_TSYNC, 1)
    for name in _REFUSED:
        rules.add_rule(seccomp.ERRNO(_EPERM), name)
    not_a_thread = seccomp.Arg(0, seccomp.MASKED_EQ, _CLONE_THREAD, 0)
    rules.add_rule(seccomp.ERRNO(_EPERM), "clone", not_a_thread)
    rules.add_rule(seccomp.ERRNO(_ENOSYS), "clone3")  # its flags are in memory; the C library then uses clone
    rules.load()
