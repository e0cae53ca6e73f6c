"""Limits of a process that is about to run a student's kernel. The process cannot lift them again."""

from __future__ import annotations

from dataclasses import dataclass

# Kernels need none of these. A compiler does, so it runs in another process, which was started before.
_REFUSED = (
    "fork", "vfork", "execve", "execveat", "socket", "socketpair", "connect", "bind", "listen", "accept", "accept4",
    "ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "mount", "umount2", "unshare", "setns",
    "pivot_root", "chroot", "bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "keyctl", "add_key",
    "request_key",
)  # fmt: skip

_CLONE_THREAD = 0x00010000
_EPERM, _ENOSYS = 1, 38

# The kernel counts threads as processes. The simulator, NVRTC and the compiler's process start some.
_PROCESSES = 256

# Maximum size of a file that the process writes: libraries of kernels, and its output.
_FILE_BYTES = 2**26


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a process.

    Attributes:
        seconds: Seconds of processor time.
        memory: Bytes of address space per process.
    """

    seconds: float
    memory: int

    def apply(self) -> None:
        """Set the limits for this process and the processes that it starts."""
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
    """Forbid this process to start programs and to open sockets. It may still start threads.

    Raises:
        ImportError: If pyseccomp is not installed.
        RuntimeError: If libseccomp is not installed.
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
