// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// One question and one answer for each connection.
#include "ipc/descriptor_server.hpp"

#include "abi/host.hpp"
#include "cuda/allocation_handle.hpp"
#include "cuda/pointer.hpp"
#include "ipc/descriptor_message.hpp"
#include "ipc/process.hpp"

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <string>
#include <system_error>

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

namespace gdr::ipc {

namespace {

struct Question {
    uint64_t base;
    uint64_t buffer_id;
};

struct Answer {
    char why_not[120]; // empty: a descriptor comes along
};

constexpr timeval kPatience{3, 0};             // of who asks; the owner opens at most one file
constexpr timeval kServerPatience{0, 100'000}; // the question was sent with the connection

socklen_t socket_name(uint64_t owner, sockaddr_un* name)
{
    *name = {};
    name->sun_family = AF_UNIX;
    // Abstract: it leaves no file behind.
    const int length = snprintf(name->sun_path + 1, sizeof(name->sun_path) - 1,
                                "ucx-gdr-ipc-%016llx", static_cast<unsigned long long>(owner));
    return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
}

void set_patience(int socket, const timeval& patience)
{
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
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
    if (cuda::buffer_id(driver, address) != question.buffer_id)
        throw cuda::Error(CUDA_ERROR_INVALID_VALUE, "the memory was freed: buffer id");
    return cuda::AllocationHandle(driver, question.base).descriptor();
}

// In UCX's asynchronous thread.
void on_connection(int listener, uint8_t, void*)
{
    const cuda::UniqueFd connection(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    if (!connection || !is_same_user(connection.get()))
        return;
    set_patience(connection.get(), kServerPatience);
    Question question{};
    if (recv(connection.get(), &question, sizeof(question), 0) != sizeof(question))
        return;
    Answer answer{};
    cuda::UniqueFd descriptor;
    const cuda::Driver* driver = cuda::driver();
    try {
        if (driver != nullptr)
            descriptor = find(*driver, question);
    } catch (const std::exception& error) {
        snprintf(answer.why_not, sizeof(answer.why_not), "%s", error.what());
    }
    if (!send_message(connection.get(), &answer, sizeof(answer), descriptor.get()))
        gdr_log(debug, "a descriptor of GPU memory was not sent: %s", strerror(errno));
}

cuda::UniqueFd listen_as(uint64_t owner)
{
    cuda::UniqueFd listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un name;
    const socklen_t length = socket_name(owner, &name);
    if (!listener || bind(listener.get(), reinterpret_cast<sockaddr*>(&name), length) != 0 ||
        listen(listener.get(), SOMAXCONN) != 0)
        return {};
    return listener;
}

[[noreturn]] void failed(const char* step)
{
    throw std::system_error(errno, std::generic_category(), step);
}

} // namespace

bool serve_descriptors(const cuda::Driver&)
{
    static std::mutex mutex;
    static uint64_t served = 0; // Process::id
    const std::lock_guard guard(mutex);
    const uint64_t id = this_process().id;
    if (served == id)
        return true;
    cuda::UniqueFd listener = listen_as(id);
    if (!listener) {
        gdr_log(diag, "no socket to share memory of cuMemCreate by: %s", strerror(errno));
        return false;
    }
    if (abi::async_add_fd(listener.get(), on_connection, nullptr) != UCS_OK)
        return false;
    listener.release(); // for as long as the process lives
    served = id;
    return true;
}

cuda::UniqueFd ask_for_descriptor(const RemoteKey& key)
{
    const cuda::UniqueFd connection(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (!connection)
        failed("socket");
    set_patience(connection.get(), kPatience);
    sockaddr_un name;
    const socklen_t length = socket_name(key.owner, &name);
    if (connect(connection.get(), reinterpret_cast<sockaddr*>(&name), length) != 0)
        failed("connecting to the owner (has it ended, or another network namespace?)");
    if (!is_same_user(connection.get()))
        throw std::runtime_error("the owner is another user");
    const Question question{key.base, key.buffer_id};
    if (send(connection.get(), &question, sizeof(question), MSG_NOSIGNAL) != sizeof(question))
        failed("asking the owner");
    Answer answer{};
    cuda::UniqueFd descriptor;
    if (!receive_message(connection.get(), &answer, sizeof(answer), &descriptor))
        failed("the owner's answer");
    answer.why_not[sizeof(answer.why_not) - 1] = '\0';
    if (answer.why_not[0] != '\0')
        throw std::runtime_error(std::string("the owner refuses: ") + answer.why_not);
    if (!descriptor) { // which the system drops where there may be no more
        errno = EMFILE;
        failed("the owner's descriptor");
    }
    return descriptor;
}

} // namespace gdr::ipc
