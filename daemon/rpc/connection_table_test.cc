// SPDX-License-Identifier: Apache-2.0
//
// Real gRPC clients on the other end of socket pairs.
#include "daemon/rpc/connection_table.h"

#include <fcntl.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "common/error_reason.h"
#include "daemon/core/testing/fake_ports.h"
#include "daemon/verbs/fake_verbs.h"
#include "google/rpc/status.pb.h"
#include "grpc/reflection/v1/reflection.grpc.pb.h"
#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"
#include "qpbroker/v1/broker.grpc.pb.h"
#include "qpbroker/v1/inspection.grpc.pb.h"

namespace qpbroker::rpc {
namespace {

using core::Scope;

size_t EntriesOf(const char* directory) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(directory), {}));
}

// Runs tasks when told, as core::FakeExecutor, but from any thread.
class HeldExecutor : public core::Executor {
 public:
  void Post(absl::string_view, uint64_t, core::Task task) override {
    absl::MutexLock lock(&mutex_);
    tasks_.push_back(std::move(task));
  }
  // Waits until something was posted, and runs all of it.
  void RunAll() {
    auto some = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !tasks_.empty(); };
    std::vector<core::Task> tasks;
    {
      absl::MutexLock lock(&mutex_);
      EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&some), absl::Seconds(20)));
      tasks.swap(tasks_);
    }
    for (core::Task& task : tasks) std::move(task)();
  }
  void AwaitPosted() {
    auto some = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !tasks_.empty(); };
    absl::MutexLock lock(&mutex_);
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&some), absl::Seconds(20)));
  }

 private:
  absl::Mutex mutex_;
  std::vector<core::Task> tasks_ ABSL_GUARDED_BY(mutex_);
};

std::string ReasonIn(const grpc::Status& status) {
  google::rpc::Status rich;
  google::rpc::ErrorInfo info;
  rich.ParseFromString(status.error_details());
  if (rich.details_size() == 1) rich.details(0).UnpackTo(&info);
  return info.reason();
}

class ConnectionTableTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { InitServices(); }

  ConnectionTableTest() {
    thread_ = std::thread([this] { loop_.Run(); });
  }
  ~ConnectionTableTest() override {
    InLoop([this] { EXPECT_TRUE(table_.Shutdown(absl::Seconds(20))); });
    loop_.Stop();
    thread_.join();
  }

  void InLoop(std::function<void()> task) {
    std::promise<void> done;
    loop_.Post([&] {
      task();
      done.set_value();
    });
    done.get_future().wait();
  }
  size_t Size() {
    size_t size = 0;
    InLoop([&] { size = table_.size(); });
    return size;
  }
  void AwaitSize(size_t size) {
    const absl::Time end = absl::Now() + absl::Seconds(20);
    while (Size() != size && absl::Now() < end) std::this_thread::yield();
    EXPECT_EQ(Size(), size);
  }
  UniqueFd ConnectRaw(Scope scope = Scope::kOwn) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    InLoop([&] { table_.Adopt(UniqueFd(ends[1]), scope); });
    return UniqueFd(ends[0]);
  }
  std::shared_ptr<grpc::Channel> Connect(Scope scope = Scope::kOwn) {
    return grpc::CreateInsecureChannelFromFd("test", ConnectRaw(scope).release());
  }
  template <class Service, class Request, class Response>
  static grpc::Status Call(const std::shared_ptr<grpc::Channel>& channel,
                           grpc::Status (Service::Stub::*method)(grpc::ClientContext*,
                                                                 const Request&, Response*),
                           const Request& request, Response& response) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    return (Service::NewStub(channel).get()->*method)(&context, request, &response);
  }
  static grpc::Status WhoAmI(const std::shared_ptr<grpc::Channel>& channel,
                             v1::WhoAmIResponse& response) {
    return Call<v1::BrokerService>(channel, &v1::BrokerService::Stub::WhoAmI, v1::WhoAmIRequest(),
                                   response);
  }
  grpc::Status Attach(const std::shared_ptr<grpc::Channel>& channel, const std::string& nonce) {
    v1::AttachRequest request;
    request.set_nonce(nonce);
    v1::AttachResponse response;
    return Call<v1::BrokerService>(channel, &v1::BrokerService::Stub::Attach, request, response);
  }
  core::SessionId BeginSession(const std::string& nonce, uid_t uid = geteuid()) {
    PeerCredentials identity{uid, getegid(), {}, getpid()};
    return *broker_.BeginSession(identity, nonce);
  }

  EventLoop loop_;
  core::FakeLeasePort leases_;
  core::FakeDomainFilePort files_;
  core::FakeDeliveryPort delivery_;
  core::FakeKeeperPort keeper_;
  HeldExecutor executor_;
  core::FakeEnvironment environment_;
  core::FakeJournal journal_;
  core::Broker broker_{
      {core::Generation(0x5f0c2a9b11d4), 0, {4, 10, 10, 10, 10}},
      {&leases_, &files_, &delivery_, &keeper_, &executor_, &environment_, &journal_}};
  std::set<core::SessionId> ended_;
  ConnectionTable table_{loop_, broker_, [this](core::SessionId id) {
                           ended_.insert(id);
                           broker_.EndSession(id);
                         }};
  std::thread thread_;
};

const char kNonce[] = "0123456789abcdef";

TEST_F(ConnectionTableTest, CallerIsWhoTheKernelSays) {
  v1::WhoAmIResponse who;
  const grpc::Status status = WhoAmI(Connect(), who);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(who.uid(), geteuid());
  EXPECT_EQ(who.gid(), getegid());
  EXPECT_EQ(who.pid(), getpid());
  EXPECT_EQ(who.session(), "");
  EXPECT_EQ(who.generation(), "5f0c2a9b11d4");
  EXPECT_NE(who.version(), "");
}

TEST_F(ConnectionTableTest, ConnectionsThatEndLeaveNeitherDescriptorsNorThreads) {
  v1::WhoAmIResponse who;
  ASSERT_TRUE(WhoAmI(Connect(), who).ok());  // gRPC starts its threads once.
  ConnectRaw().reset();
  AwaitSize(0);
  const size_t files = EntriesOf("/proc/self/fd");
  for (int i = 0; i < 200; ++i) {
    UniqueFd client = ConnectRaw();
    const std::string begun = "PRI * HTTP/2.0";
    EXPECT_GT(write(client.get(), begun.data(), i % 2 == 0 ? begun.size() : 1), 0);
    client.reset();
    // The charge is refunded by the reaper, a moment after the connection left the table.
    InLoop([this] { EXPECT_TRUE(table_.Shutdown(absl::Seconds(20))); });
  }
  EXPECT_EQ(Size(), 0u);
  const absl::Time end = absl::Now() + absl::Seconds(20);
  while (EntriesOf("/proc/self/fd") > files && absl::Now() < end) std::this_thread::yield();
  EXPECT_LE(EntriesOf("/proc/self/fd"), files);
}

// gRPC's own reflection service would keep at least one thread for each connection.
TEST_F(ConnectionTableTest, ConnectionNeedsNoThreadOfItsOwn) {
  v1::WhoAmIResponse who;
  std::vector<std::shared_ptr<grpc::Channel>> channels = {Connect()};
  ASSERT_TRUE(WhoAmI(channels[0], who).ok());
  const size_t threads = EntriesOf("/proc/self/task");
  std::vector<UniqueFd> more;
  for (int i = 0; i < 3; ++i) more.push_back(ConnectRaw());
  EXPECT_LE(EntriesOf("/proc/self/task"), threads + 1);
}

TEST_F(ConnectionTableTest, OverTheQuotaAConnectionIsClosed) {
  std::vector<UniqueFd> clients;
  for (int i = 0; i < 5; ++i) clients.push_back(ConnectRaw());
  EXPECT_EQ(Size(), 4u);
  char byte;
  EXPECT_EQ(read(clients[4].get(), &byte, 1), 0) << "closed without a word";
  clients.erase(clients.begin());
  AwaitSize(3);
}

TEST_F(ConnectionTableTest, AttachJoinsOnceAndTheSessionEndsWithTheConnection) {
  const core::SessionId session = BeginSession(kNonce);
  std::shared_ptr<grpc::Channel> channel = Connect();
  ASSERT_TRUE(Attach(channel, kNonce).ok());
  v1::WhoAmIResponse who;
  ASSERT_TRUE(WhoAmI(channel, who).ok());
  EXPECT_EQ(who.session(), "sessions/1@5f0c2a9b11d4");
  EXPECT_EQ(ReasonIn(Attach(channel, kNonce)), "ALREADY_ATTACHED");
  EXPECT_EQ(ReasonIn(Attach(Connect(), kNonce)), "BAD_NONCE") << "it was used before";
  channel.reset();
  const absl::Time end = absl::Now() + absl::Seconds(20);
  while (broker_.IsAttached(session) && absl::Now() < end) std::this_thread::yield();
  InLoop([&] { EXPECT_EQ(ended_, std::set<core::SessionId>{session}); });
}

TEST_F(ConnectionTableTest, BadNonces) {
  const core::SessionId session = BeginSession(kNonce, geteuid() + 1);
  std::shared_ptr<grpc::Channel> channel = Connect();
  EXPECT_EQ(ReasonIn(Attach(channel, "")), "MISSING_FIELD");
  EXPECT_EQ(ReasonIn(Attach(channel, "short")), "INVALID_FIELD");
  EXPECT_EQ(ReasonIn(Attach(channel, "fedcba9876543210")), "BAD_NONCE");
  EXPECT_EQ(ReasonIn(Attach(channel, kNonce)), "BAD_NONCE") << "another user's";
  EXPECT_FALSE(broker_.IsAttached(session));
  broker_.EndSession(session);
}

TEST_F(ConnectionTableTest, CallThatIsStillUnderWayKeepsItsConnectionUntilItIsAnswered) {
  verbs::FakeKernel kernel;
  verbs::FakeVerbs verbs(kernel);
  kernel.AddDevice({.name = "fake0"});
  broker_.AddDevice(*verbs.OpenDevice("fake0"));
  std::shared_ptr<grpc::Channel> channel = Connect();
  v1::ListDevicesRequest request;
  v1::ListDevicesResponse response;
  auto call = std::async(std::launch::async, [&] {
    return Call<v1::BrokerService>(channel, &v1::BrokerService::Stub::ListDevices, request,
                                   response);
  });
  executor_.AwaitPosted();
  InLoop([this] { EXPECT_FALSE(table_.Shutdown(absl::ZeroDuration())) << "the device is slow"; });
  EXPECT_EQ(Size(), 0u);
  executor_.RunAll();
  call.get();  // Answered, or cut off by the end of the connection.
  InLoop([this] { EXPECT_TRUE(table_.Shutdown(absl::Seconds(20))); });
  broker_.RemoveDevice("fake0");
  executor_.RunAll();
}

TEST_F(ConnectionTableTest, OperatorsSeeNoBrokerService) {
  std::shared_ptr<grpc::Channel> channel = Connect(Scope::kAll);
  v1::WhoAmIResponse who;
  EXPECT_EQ(WhoAmI(channel, who).error_code(), grpc::StatusCode::UNIMPLEMENTED);
  v1::ListXrcdsResponse xrcds;
  EXPECT_TRUE(Call<v1::InspectionService>(channel, &v1::InspectionService::Stub::ListXrcds,
                                          v1::ListXrcdsRequest(), xrcds)
                  .ok());
}

TEST_F(ConnectionTableTest, RequestsAboveTheLimitAreRefusedAndTheConnectionGoesOn) {
  std::shared_ptr<grpc::Channel> channel = Connect();
  v1::CloseQpRequest request;
  request.set_lease(std::string(4 << 20, 'x'));
  v1::CloseQpResponse response;
  EXPECT_EQ(Call<v1::BrokerService>(channel, &v1::BrokerService::Stub::CloseQp, request, response)
                .error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  request.set_lease(std::string(10000, 'x') + std::string(1, '\0'));
  const grpc::Status status =
      Call<v1::BrokerService>(channel, &v1::BrokerService::Stub::CloseQp, request, response);
  EXPECT_EQ(ReasonIn(status), "INVALID_FIELD");
  EXPECT_LT(status.error_message().size(), 300u);
}

template <class Reflection, class Request, class Response>
void ExpectReflection(const std::shared_ptr<grpc::Channel>& channel) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  auto stream = Reflection::NewStub(channel)->ServerReflectionInfo(&context);
  auto ask = [&](const Request& request) {
    Response response;
    EXPECT_TRUE(stream->Write(request) && stream->Read(&response));
    return response;
  };
  Request request;
  request.set_list_services("");
  std::set<std::string> names;
  const Response listed = ask(request);
  for (const auto& service : listed.list_services_response().service()) {
    names.insert(service.name());
  }
  EXPECT_EQ(names.size(), 5u);
  for (const std::string& name : names) {
    request.set_file_containing_symbol(name);
    EXPECT_GT(ask(request).file_descriptor_response().file_descriptor_proto_size(), 0) << name;
  }
  request.set_file_by_filename("no\nsuch.proto");
  EXPECT_EQ(ask(request).error_response().error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(ask(Request()).error_response().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(ConnectionTableTest, ReflectionDescribesEveryServiceThatItLists) {
  namespace reflection = grpc::reflection;
  ExpectReflection<reflection::v1::ServerReflection, reflection::v1::ServerReflectionRequest,
                   reflection::v1::ServerReflectionResponse>(Connect());
  ExpectReflection<reflection::v1alpha::ServerReflection,
                   reflection::v1alpha::ServerReflectionRequest,
                   reflection::v1alpha::ServerReflectionResponse>(Connect());
}

TEST_F(ConnectionTableTest, OpenStreamsDoNotHoldUpTheEnd) {
  std::shared_ptr<grpc::Channel> channel = Connect();
  grpc::ClientContext context;
  auto stream =
      grpc::reflection::v1::ServerReflection::NewStub(channel)->ServerReflectionInfo(&context);
  grpc::reflection::v1::ServerReflectionRequest request;
  grpc::reflection::v1::ServerReflectionResponse response;
  request.set_list_services("");
  ASSERT_TRUE(stream->Write(request) && stream->Read(&response));
  InLoop([this] { EXPECT_TRUE(table_.Shutdown(absl::Seconds(20))); });
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_FALSE(stream->Finish().ok());
}

}  // namespace
}  // namespace qpbroker::rpc
