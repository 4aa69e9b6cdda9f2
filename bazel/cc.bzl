"""C++ rules with this project's warnings. Generated and foreign code is built without them."""

COPTS = [
    "-Wall",
    "-Wextra",
    "-Wshadow",
    "-Wnon-virtual-dtor",
    "-Woverloaded-virtual",
    "-Wimplicit-fallthrough",
    "-Werror",
]

# The sanitizer cannot see into the system's abseil by itself.
_SANITIZER_DEPS = select({
    "//bazel:tsan": ["//tests/support/tsan"],
    "//conditions:default": [],
})

def qpb_cc_library(copts = [], **kwargs):
    native.cc_library(copts = COPTS + copts, linkstatic = True, **kwargs)

def qpb_cc_binary(deps = [], copts = [], **kwargs):
    native.cc_binary(copts = COPTS + copts, deps = deps + _SANITIZER_DEPS, **kwargs)

def qpb_cc_test(deps = [], copts = [], size = "small", linkstatic = True, **kwargs):
    """A GoogleTest; linked statically with our own code, so that --wrap reaches all of it."""
    native.cc_test(
        copts = COPTS + copts,
        deps = deps + ["@system_libs//:gtest_main"] + _SANITIZER_DEPS,
        linkstatic = linkstatic,
        size = size,
        **kwargs
    )
