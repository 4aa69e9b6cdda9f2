"""The system's C++ libraries as @system_libs//:NAME, with the flags that pkg-config gives."""

# Name of the target: the pkg-config packages, and link flags that these leave out.
_PKG_CONFIG = {
    "absl": ([
        "absl_any_invocable",
        "absl_btree",
        "absl_cleanup",
        "absl_flat_hash_map",
        "absl_flat_hash_set",
        "absl_inlined_vector",
        "absl_random_random",
        "absl_span",
        "absl_status",
        "absl_statusor",
        "absl_str_format",
        "absl_strings",
        "absl_synchronization",
        "absl_time",
    ], []),
    "benchmark": (["benchmark"], []),
    "cli11": (["CLI11"], []),
    "gtest": (["gmock"], []),
    "gtest_main": (["gmock_main"], []),
    # gRPC's headers inline calls into abseil, so that whoever includes them links it.
    "grpcxx": (["grpc++", "absl_synchronization"], []),
    "ibverbs": (["libibverbs"], []),
    "libsystemd": (["libsystemd"], []),
    "libudev": (["libudev"], []),
    "protobuf": (["protobuf"], []),
    # Not all versions of Debian's rapidcheck have a .pc file.
    "rapidcheck": ([], ["-lrapidcheck"]),
    "spdlog": (["spdlog"], []),
}

def _query(repository_ctx, package, what):
    result = repository_ctx.execute(["pkg-config", what, package])
    if result.return_code != 0:
        fail("pkg-config does not know %s; install what deploy/quickstart lists\n%s" %
             (package, result.stderr))
    return [flag for flag in result.stdout.strip().split(" ") if flag]

def _system_libs_impl(repository_ctx):
    lines = ["package(default_visibility = [\"//visibility:public\"])", ""]
    for name, (packages, extra) in _PKG_CONFIG.items():
        defines = []
        linkopts = list(extra)
        for package in packages:
            for flag in _query(repository_ctx, package, "--cflags"):
                if flag.startswith("-D"):
                    defines.append(flag[2:])
            for flag in _query(repository_ctx, package, "--libs"):
                if flag not in linkopts:
                    linkopts.append(flag)
        lines += [
            "cc_library(",
            "    name = \"%s\"," % name,
            "    defines = %r," % defines,
            "    linkopts = %r," % linkopts,
            ")",
            "",
        ]
    repository_ctx.file("BUILD.bazel", "\n".join(lines))

system_libs = repository_rule(
    implementation = _system_libs_impl,
    local = True,
    doc = "Include paths are the compiler's own: Debian installs all of these under /usr/include.",
)
