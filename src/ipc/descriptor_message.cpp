// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Descriptors travel as control data.
#include "ipc/descriptor_message.hpp"

#include <cerrno>
#include <cstring>

#include <sys/socket.h>

namespace gdr::ipc {

namespace {

// Has room for one descriptor, without alignment padding that would hold a second: the kernel
// closes descriptors for which there is no room.
union Control {
    cmsghdr header;
    char space[CMSG_SPACE(sizeof(int))];
};

msghdr message_of(iovec* data, Control* control)
{
    msghdr message{};
    message.msg_iov = data;
    message.msg_iovlen = 1;
    if (control != nullptr) {
        message.msg_control = control;
        message.msg_controllen = CMSG_LEN(sizeof(int));
    }
    return message;
}

cuda::UniqueFd descriptor_in(msghdr& message)
{
    const cmsghdr* header = CMSG_FIRSTHDR(&message);
    if (header == nullptr || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) {
        return {};
    }
    int received;
    memcpy(&received, CMSG_DATA(header), sizeof(received));
    return cuda::UniqueFd(received);
}

} // namespace

bool send_message(int socket, const void* bytes, size_t length, int descriptor)
{
    iovec data{const_cast<void*>(bytes), length};
    Control control{};
    const msghdr message = message_of(&data, descriptor >= 0 ? &control : nullptr);
    if (descriptor >= 0) {
        cmsghdr* header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
    }
    return sendmsg(socket, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(length);
}

bool receive_message(int socket, void* bytes, size_t length, cuda::UniqueFd* descriptor)
{
    iovec data{bytes, length};
    Control control{};
    msghdr message = message_of(&data, descriptor != nullptr ? &control : nullptr);
    const ssize_t size = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    if (size < 0) {
        return false;
    }
    if (descriptor != nullptr) {
        *descriptor = descriptor_in(message);
    }
    if (size == static_cast<ssize_t>(length)) {
        return true;
    }
    errno = ECONNRESET;
    return false;
}

} // namespace gdr::ipc
