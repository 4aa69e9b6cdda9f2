"""C++ from .proto files by the system's protoc."""

def qpb_cc_proto_library(name, srcs, deps = [], grpc = False, visibility = None):
    """A cc_library of the messages, or with `grpc` of the services, of `srcs`.

    Imports and includes are relative to //proto: "qpbroker/v1/broker.proto", and
    "qpbroker/v1/broker.pb.h" or "qpbroker/v1/broker.grpc.pb.h".

    Args:
      name: of the library.
      srcs: .proto files of package //proto.
      deps: libraries of the imported messages, and for services of their own.
      grpc: generate the services instead of the messages.
      visibility: of the library.
    """
    suffix = ".grpc.pb" if grpc else ".pb"
    stems = [src[:-len(".proto")] for src in srcs]
    hdrs = ["gen/" + stem + suffix + ".h" for stem in stems]
    ccs = ["gen/" + stem + suffix + ".cc" for stem in stems]
    plugin = "--plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin --grpc_out" if grpc else "--cpp_out"
    native.genrule(
        name = name + "_gen",
        srcs = srcs + [":all_protos"],
        outs = hdrs + ccs,
        cmd = "protoc -Iproto {}=$(RULEDIR)/gen {}".format(
            plugin,
            " ".join(["proto/" + src for src in srcs]),
        ),
    )
    native.cc_library(
        name = name,
        srcs = ccs,
        hdrs = hdrs,
        # Generated code is not ours to keep free of warnings.
        copts = ["-w"],
        linkstatic = True,
        includes = ["gen"],
        visibility = visibility,
        deps = deps + (["@system_libs//:grpcxx"] if grpc else ["@system_libs//:protobuf"]),
    )
