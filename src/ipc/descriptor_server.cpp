// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Each connection carries one question and one answer.
#include "ipc/descriptor_server.hpp"

#include "abi/host.hpp"
#include "cuda/allocation_handle.hpp"
#include "cuda/pointer.hpp"
#include "ipc/descriptor_message.hpp"
#include "ipc/process.hpp"
#include "ipc/silent_owners.hpp"
#include "log/log.hpp"
#include "secrets/siphash.hpp"

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

namespace gdr::ipc {

namespace {

struct Question {
    uint64_t base;
    uint64_t buffer_id;
    uint64_t proof; // RemoteKey::proof
};

struct Answer {
    char why_not[119]; // empty: a descriptor is attached
    bool again;        // the owner is out of descriptors
};

using Clock = SilentOwners::Clock;

constexpr std::chrono::milliseconds kServerPatience{
    100}; // the question is sent right after connect()

socklen_t socket_name(uint64_t owner, sockaddr_un* name)
{
    *name = {};
    name->sun_family = AF_UNIX;
    // An abstract name leaves no file behind.
    const int length = snprintf(name->sun_path + 1, sizeof(name->sun_path) - 1,
                                "ucx-gdr-ipc-%016llx", static_cast<unsigned long long>(owner));
    return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
}

void set_patience(int socket, std::chrono::milliseconds patience)
{
    const timeval limit{patience.count() / 1000, patience.count() % 1000 * 1000};
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

// Repeats call() on a socket until it succeeds or end is reached, and returns whether it succeeded,
// with errno (EAGAIN at the end). Signals interrupt socket calls that have a timeout, even with
// SA_RESTART.
bool patiently(int socket, Clock::time_point end, auto call)
{
    do {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
        if (left.count() <= 0) {
            errno = EAGAIN;
            return false;
        }
        set_patience(socket, left);
        if (call()) {
            return true;
        }
    } while (errno == EINTR);
    return false;
}

bool is_same_user(int socket)
{
    ucred peer{};
    socklen_t length = sizeof(peer);
    return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
           peer.uid == geteuid();
}

cuda::UniqueFd find(const cuda::Driver& driver, const Question& question)
{
    const auto* address = reinterpret_cast<const void*>(question.base);
    if (question.proof != proof_of(question.base, question.buffer_id)) {
        throw std::runtime_error("this process has made no such key");
    }
    if (cuda::buffer_id(driver, address) != question.buffer_id) {
        throw cuda::Error(CUDA_ERROR_INVALID_VALUE, "the memory was freed: buffer id");
    }
    return cuda::AllocationHandle(driver, question.base).descriptor();
}

// A reserve descriptor that is closed to accept a connection when none are left: otherwise nobody
// would answer those who wait, and the listener would stay readable. After the first use it belongs
// to UCX's async thread.
constinit int spare = -1;

int any_descriptor()
{
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

void answer(int connection, bool lacking)
{
    Question question{};
    if (!is_same_user(connection) || !patiently(connection, Clock::now() + kServerPatience, [&] {
            return receive_message(connection, &question, sizeof(question), nullptr);
        })) {
        return;
    }
    Answer answer{};
    cuda::UniqueFd descriptor;
    const cuda::Driver* driver = cuda::open_driver();
    try {
        if (driver != nullptr && !lacking) {
            descriptor = find(*driver, question);
        }
    } catch (const std::exception& error) {
        snprintf(answer.why_not, sizeof(answer.why_not), "%s", error.what());
        lacking = !cuda::UniqueFd(any_descriptor());
    }
    answer.again = lacking;
    if (!patiently(connection, Clock::now() + kServerPatience, [&] {
            return send_message(connection, &answer, sizeof(answer), descriptor.get());
        })) {
        gdr_log(debug, "a file descriptor of GPU memory was not sent to the process that asked: %s",
                std::generic_category().message(errno).c_str());
    }
}

// Runs in UCX's async thread.
void on_connection(int listener, uint8_t, void*)
{
    const auto next = [&] {
        return cuda::UniqueFd(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    };
    cuda::UniqueFd connection = next();
    const bool lacking = !connection && (errno == EMFILE || errno == ENFILE);
    if (lacking && spare >= 0) {
        close(std::exchange(spare, -1));
        connection = next();
    }
    if (connection) {
        answer(connection.get(), lacking);
    }
    connection = {};
    if (spare < 0) {
        spare = any_descriptor();
    }
}

cuda::UniqueFd listen_as(uint64_t owner)
{
    cuda::UniqueFd listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un name;
    const socklen_t length = socket_name(owner, &name);
    if (!listener || bind(listener.get(), reinterpret_cast<sockaddr*>(&name), length) != 0 ||
        listen(listener.get(), SOMAXCONN) != 0) {
        return {};
    }
    return listener;
}

[[noreturn]] void failed(const char* step)
{
    // The owner was too slow, or closed the connection silently, as it does if the question comes
    // late.
    if (errno == EAGAIN || errno == EPIPE || errno == ECONNRESET) {
        throw NoAnswer(std::string(step) + ": it does not answer, and is asked again later");
    }
    throw std::system_error(errno, std::generic_category(), step);
}

struct Reply {
    Answer answer{};
    cuda::UniqueFd descriptor;
};

Reply ask(const RemoteKey& key, std::chrono::milliseconds patience)
{
    const Clock::time_point end = Clock::now() + patience;
    const cuda::UniqueFd connection(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (!connection) {
        failed("socket");
    }
    const int socket = connection.get();
    sockaddr_un name;
    const socklen_t length = socket_name(key.owner, &name);
    if (!patiently(socket, end, [&] {
            return connect(socket, reinterpret_cast<sockaddr*>(&name), length) == 0;
        })) {
        failed("connecting to the owner (has it ended, or another network namespace?)");
    }
    if (!is_same_user(socket)) {
        throw std::runtime_error("the owner runs as another user");
    }
    const Question question{key.base, key.buffer_id, key.proof};
    if (!patiently(socket, end,
                   [&] { return send_message(socket, &question, sizeof(question), -1); })) {
        failed("asking the owner");
    }
    Reply reply;
    if (!patiently(socket, end, [&] {
            return receive_message(socket, &reply.answer, sizeof(reply.answer), &reply.descriptor);
        })) {
        failed("the owner's answer");
    }
    return reply;
}

cuda::UniqueFd descriptor_of(Reply reply)
{
    Answer& answer = reply.answer;
    answer.why_not[sizeof(answer.why_not) - 1] = '\0';
    if (answer.again) {
        errno = EMFILE;
        failed("the owner");
    }
    if (answer.why_not[0] != '\0') {
        throw std::runtime_error(std::string("the owner refuses: ") + answer.why_not);
    }
    if (!reply.descriptor) { // the kernel drops it if there are none left
        errno = EMFILE;
        failed("the owner's descriptor");
    }
    return std::move(reply.descriptor);
}

SilentOwners& silent_owners()
{
    static auto& owners = *new SilentOwners; // outlives static destructors that use UCX
    return owners;
}

} // namespace

uint64_t proof_of(uint64_t base, uint64_t buffer_id)
{
    static const secrets::HashKey secret = secrets::random_key();
    const uint64_t memory[] = {base, buffer_id};
    return secrets::siphash(secret, memory, sizeof(memory));
}

void serve_descriptors()
{
    static std::mutex mutex;
    static uint64_t served = 0; // Process::id
    static int listening = -1;
    const std::lock_guard guard(mutex);
    const uint64_t id = this_process().id;
    if (served == id) {
        return;
    }
    cuda::UniqueFd listener = listen_as(id);
    if (!listener) {
        failed("listening for processes that ask for descriptors");
    }
    if (spare < 0) {
        spare = any_descriptor();
    }
    if (abi::async_add_fd(listener.get(), on_connection, nullptr) != UCS_OK) {
        throw std::runtime_error("UCX's asynchronous thread takes no socket");
    }
    // A child's copy would accept connections to a parent that has ended, and never answer.
    static const int closed_by_child = pthread_atfork(nullptr, nullptr, [] {
        if (listening >= 0) { // false in a child of a child
            close(std::exchange(listening, -1));
        }
    });
    if (closed_by_child == 0) {
        listening = listener.get();
    }
    listener.release(); // stays open for the life of the process
    served = id;
}

bool is_silent(uint64_t owner)
{
    return silent_owners().patience(owner, Clock::now()).count() == 0;
}

cuda::UniqueFd ask_for_descriptor(const RemoteKey& key)
{
    const auto patience = silent_owners().patience(key.owner, Clock::now());
    if (patience.count() == 0) {
        throw NoAnswer("the owner has not answered, and is asked again later");
    }
    try {
        Reply reply = ask(key, patience);
        silent_owners().answered(key.owner);
        return descriptor_of(std::move(reply));
    } catch (const NoAnswer&) {
        silent_owners().did_not_answer(key.owner, Clock::now());
        throw;
    }
}

} // namespace gdr::ipc
