// SPDX-License-Identifier: Apache-2.0
//
// The reflection service that comes with gRPC 1.51 is a synchronous one, and a server with a
// synchronous service keeps threads of its own for it: at least one for each connection here. This
// one uses the callback API and needs none.
#include "daemon/rpc/reflection_service.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/message.h>
#include <grpcpp/support/server_callback.h>

#include <set>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "grpc/health/v1/health.pb.h"
#include "grpc/reflection/v1/reflection.grpc.pb.h"
#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"

namespace qpbroker::rpc {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::FileDescriptor;

// Adds `file` behind everything that it imports.
template <class FileResponse>
void AddWithImports(const FileDescriptor& file, std::set<std::string>& added,
                    FileResponse& response) {
  if (!added.insert(file.name()).second) return;
  for (int i = 0; i < file.dependency_count(); ++i) {
    AddWithImports(*file.dependency(i), added, response);
  }
  google::protobuf::FileDescriptorProto proto;
  file.CopyTo(&proto);
  response.add_file_descriptor_proto(proto.SerializeAsString());
}

template <class Response>
void SetNotFound(absl::string_view what, Response& response) {
  constexpr size_t kShown = 80;
  response.mutable_error_response()->set_error_code(grpc::StatusCode::NOT_FOUND);
  response.mutable_error_response()->set_error_message(
      absl::StrCat("there is no ", absl::CEscape(what.substr(0, kShown))));
}

template <class Response>
void SetFile(const FileDescriptor* file, absl::string_view what, Response& response) {
  if (file == nullptr) return SetNotFound(what, response);
  std::set<std::string> added;
  AddWithImports(*file, added, *response.mutable_file_descriptor_response());
}

template <class Response>
void SetExtensionNumbers(const std::string& type, Response& response) {
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  const google::protobuf::Descriptor* message = pool.FindMessageTypeByName(type);
  if (message == nullptr) return SetNotFound(type, response);
  std::vector<const google::protobuf::FieldDescriptor*> extensions;
  pool.FindAllExtensions(message, &extensions);
  auto& numbers = *response.mutable_all_extension_numbers_response();
  numbers.set_base_type_name(type);
  for (const auto* extension : extensions) numbers.add_extension_number(extension->number());
}

template <class Request, class Response>
void Answer(const Request& request, absl::Span<const char* const> services, Response& response) {
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  response.set_valid_host(request.host());
  *response.mutable_original_request() = request;
  switch (request.message_request_case()) {
    case Request::kFileByFilename:
      return SetFile(pool.FindFileByName(request.file_by_filename()), request.file_by_filename(),
                     response);
    case Request::kFileContainingSymbol:
      return SetFile(pool.FindFileContainingSymbol(request.file_containing_symbol()),
                     request.file_containing_symbol(), response);
    case Request::kFileContainingExtension: {
      const auto& asked = request.file_containing_extension();
      const auto* message = pool.FindMessageTypeByName(asked.containing_type());
      const auto* extension = message == nullptr
                                  ? nullptr
                                  : pool.FindExtensionByNumber(message, asked.extension_number());
      return SetFile(extension == nullptr ? nullptr : extension->file(), "such extension",
                     response);
    }
    case Request::kAllExtensionNumbersOfType:
      return SetExtensionNumbers(request.all_extension_numbers_of_type(), response);
    case Request::kListServices:
      for (const char* name : services) {
        response.mutable_list_services_response()->add_service()->set_name(name);
      }
      return;
    default:
      response.mutable_error_response()->set_error_code(grpc::StatusCode::INVALID_ARGUMENT);
      response.mutable_error_response()->set_error_message("the request asks for nothing");
  }
}

// One stream: a question is read when the answer to the one before it was sent.
template <class Request, class Response>
class Stream final : public grpc::ServerBidiReactor<Request, Response> {
 public:
  explicit Stream(absl::Span<const char* const> services) : services_(services) {
    this->StartRead(&request_);
  }
  void OnReadDone(bool ok) override {
    if (!ok) return this->Finish(grpc::Status::OK);
    response_.Clear();
    Answer(request_, services_, response_);
    this->StartWrite(&response_);
  }
  void OnWriteDone(bool ok) override {
    if (!ok) return this->Finish(grpc::Status::OK);
    this->StartRead(&request_);
  }
  void OnDone() override { delete this; }

 private:
  const absl::Span<const char* const> services_;
  Request request_;
  Response response_;
};

template <class Service, class Request, class Response>
class ReflectionService final : public Service {
 public:
  explicit ReflectionService(absl::Span<const char* const> services) : services_(services) {}
  grpc::ServerBidiReactor<Request, Response>* ServerReflectionInfo(
      grpc::CallbackServerContext*) override {
    return new Stream<Request, Response>(services_);
  }

 private:
  const absl::Span<const char* const> services_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewReflectionService(absl::Span<const char* const> services) {
  namespace v1 = grpc::reflection::v1;
  // gRPC's own health service registers no descriptor: the linker must keep ours.
  google::protobuf::LinkMessageReflection<grpc::health::v1::HealthCheckRequest>();
  return std::make_unique<
      ReflectionService<v1::ServerReflection::CallbackService, v1::ServerReflectionRequest,
                        v1::ServerReflectionResponse>>(services);
}

std::unique_ptr<grpc::Service> NewReflectionServiceV1Alpha(absl::Span<const char* const> services) {
  namespace v1alpha = grpc::reflection::v1alpha;
  return std::make_unique<
      ReflectionService<v1alpha::ServerReflection::CallbackService,
                        v1alpha::ServerReflectionRequest, v1alpha::ServerReflectionResponse>>(
      services);
}

}  // namespace qpbroker::rpc
