// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What the tests of DEVX on softmlx5 share: methods, commands in the device's own format, and
// objects in memory of the program's. All fields are named by their places in bytes.
#pragma once

#include "softhca_fixture.hpp"

#include <cerrno>
#include <cstring>
#include <span>
#include <vector>

#include <endian.h>
#include <infiniband/mlx5dv.h>
#include <poll.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum Opcode : std::uint32_t {
    kQueryHcaCap = 0x100,
    kCreateMkey = 0x200,
    kCreateCq = 0x400,
    kCreateQp = 0x500,
    kReset2Init = 0x502,
    kInit2Rtr = 0x503,
    kRtr2Rts = 0x504,
    k2Err = 0x507,
    k2Rst = 0x50a,
    kQueryQp = 0x50b,
    kCreateDct = 0x710,
    kQueryLag = 0x842,
    kCreateRmp = 0x90c,
};
enum Status : unsigned {
    kOk = 0,
    kBadOperation = 2,
    kBadParameter = 3,
    kBadResource = 5,
    kBadQpState = 0x10,
    kBadInputLength = 0x50,
};
constexpr std::size_t kLongest = 4112; // of what is answered

// A method's attributes.
class Method {
  public:
    Method(std::uint16_t object, std::uint16_t method)
    {
        header().object_id = object;
        header().method_id = method;
    }
    Method& in(unsigned id, const void* data, std::size_t length)
    {
        ib_uverbs_attr& attribute = add(id, length);
        if (length <= sizeof attribute.data) {
            std::memcpy(&attribute.data, data, length);
        } else {
            attribute.data = reinterpret_cast<std::uint64_t>(data);
        }
        return *this;
    }
    Method& out(unsigned id, void* data, std::size_t length)
    {
        add(id, length).data = reinterpret_cast<std::uint64_t>(data);
        return *this;
    }
    Method& object(unsigned id, std::uint64_t handle)
    {
        add(id, 0).data = handle;
        return *this;
    }
    // 0 or an errno.
    int call(int fd)
    {
        header().length = static_cast<std::uint16_t>(sizeof header() +
                                                     header().num_attrs * sizeof(ib_uverbs_attr));
        return ioctl(fd, RDMA_VERBS_IOCTL, bytes_) == 0 ? 0 : errno;
    }
    std::uint64_t handle(unsigned id)
    {
        for (unsigned i = 0; i < header().num_attrs; ++i) {
            if (header().attrs[i].attr_id == id) {
                return header().attrs[i].data;
            }
        }
        return ~0ull;
    }

  private:
    ib_uverbs_ioctl_hdr& header() { return *reinterpret_cast<ib_uverbs_ioctl_hdr*>(bytes_); }
    ib_uverbs_attr& add(unsigned id, std::size_t length)
    {
        ib_uverbs_attr& attribute = header().attrs[header().num_attrs++];
        attribute = {};
        attribute.attr_id = static_cast<std::uint16_t>(id);
        attribute.len = static_cast<std::uint16_t>(length);
        return attribute;
    }
    alignas(8) unsigned char bytes_[sizeof(ib_uverbs_ioctl_hdr) + 8 * sizeof(ib_uverbs_attr)] = {};
};

// A command, of so many bytes.
struct Command {
    std::vector<unsigned char> bytes;

    Command(Opcode opcode, std::size_t size) : bytes(size) { put(0, opcode << 16); }
    Command& put(std::size_t at, std::uint32_t word)
    {
        word = htobe32(word | get(at));
        std::memcpy(&bytes[at], &word, sizeof word);
        return *this;
    }
    std::uint32_t get(std::size_t at) const
    {
        std::uint32_t word;
        std::memcpy(&word, &bytes[at], sizeof word);
        return be32toh(word);
    }
};

class Devx : public ::testing::Test {
  protected:
    struct Answer {
        int error;
        std::vector<unsigned char> bytes = std::vector<unsigned char>(kLongest);
        std::uint64_t handle = 0;

        unsigned status() const { return bytes[0]; }
        std::uint32_t get(std::size_t at) const
        {
            std::uint32_t word;
            std::memcpy(&word, &bytes[at], sizeof word);
            return be32toh(word);
        }
        std::uint32_t number() const { return get(8) & 0xffffff; }
        bool is_ok() const { return error == 0 && status() == kOk; }
        // The command interface has answered so, and why.
        bool is(Status expected) const
        {
            return error == EREMOTEIO && status() == expected && get(4) != 0;
        }
    };

    int fd() const { return device.context->cmd_fd; }
    // What the device answers to a command, whose and whose answer's attributes these are.
    Answer ask(Method& method, unsigned in, unsigned out, const Command& command) const
    {
        Answer answer;
        answer.error = method.in(in, command.bytes.data(), command.bytes.size())
                           .out(out, answer.bytes.data(), kLongest)
                           .call(fd());
        return answer;
    }
    Answer general(const Command& command)
    {
        Method method(MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_OTHER);
        return ask(method, MLX5_IB_ATTR_DEVX_OTHER_CMD_IN, MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT,
                   command);
    }
    Answer create(const Command& command)
    {
        Method method(MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_CREATE);
        method.object(MLX5_IB_ATTR_DEVX_OBJ_CREATE_HANDLE, 0);
        Answer answer = ask(method, MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN,
                            MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT, command);
        answer.handle = method.handle(MLX5_IB_ATTR_DEVX_OBJ_CREATE_HANDLE);
        return answer;
    }
    Answer modify(std::uint64_t handle, const Command& command)
    {
        return ask(Method(MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_MODIFY)
                       .object(MLX5_IB_ATTR_DEVX_OBJ_MODIFY_HANDLE, handle),
                   MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_IN, MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_OUT,
                   command);
    }
    Answer query(std::uint64_t handle, const Command& command)
    {
        return ask(Method(MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_QUERY)
                       .object(MLX5_IB_ATTR_DEVX_OBJ_QUERY_HANDLE, handle),
                   MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_IN, MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_OUT,
                   command);
    }
    int destroy(std::uint64_t handle)
    {
        return Method(MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_DESTROY)
            .object(MLX5_IB_ATTR_DEVX_OBJ_DESTROY_HANDLE, handle)
            .call(fd());
    }
    struct Umem {
        int error;
        std::uint64_t handle;
        std::uint32_t id;
    };
    Umem register_umem(const void* start, std::uint64_t length)
    {
        Umem umem = {};
        Method method(MLX5_IB_OBJECT_DEVX_UMEM, MLX5_IB_METHOD_DEVX_UMEM_REG);
        const auto address = reinterpret_cast<std::uint64_t>(start);
        const std::uint32_t access = IBV_ACCESS_LOCAL_WRITE;
        umem.error = method.object(MLX5_IB_ATTR_DEVX_UMEM_REG_HANDLE, 0)
                         .in(MLX5_IB_ATTR_DEVX_UMEM_REG_ADDR, &address, sizeof address)
                         .in(MLX5_IB_ATTR_DEVX_UMEM_REG_LEN, &length, sizeof length)
                         .in(MLX5_IB_ATTR_DEVX_UMEM_REG_ACCESS, &access, sizeof access)
                         .out(MLX5_IB_ATTR_DEVX_UMEM_REG_OUT_ID, &umem.id, sizeof umem.id)
                         .call(fd());
        umem.handle = method.handle(MLX5_IB_ATTR_DEVX_UMEM_REG_HANDLE);
        return umem;
    }
    int deregister(const Umem& umem)
    {
        return Method(MLX5_IB_OBJECT_DEVX_UMEM, MLX5_IB_METHOD_DEVX_UMEM_DEREG)
            .object(MLX5_IB_ATTR_DEVX_UMEM_DEREG_HANDLE, umem.handle)
            .call(fd());
    }
    int open_channel(std::uint32_t flags = MLX5_IB_UAPI_DEVX_CR_EV_CH_FLAGS_OMIT_DATA)
    {
        Method method(MLX5_IB_OBJECT_DEVX_ASYNC_EVENT_FD, MLX5_IB_METHOD_DEVX_ASYNC_EVENT_FD_ALLOC);
        const int error =
            method.object(MLX5_IB_ATTR_DEVX_ASYNC_EVENT_FD_ALLOC_HANDLE, 0)
                .in(MLX5_IB_ATTR_DEVX_ASYNC_EVENT_FD_ALLOC_FLAGS, &flags, sizeof flags)
                .call(fd());
        return error == 0
                   ? static_cast<int>(method.handle(MLX5_IB_ATTR_DEVX_ASYNC_EVENT_FD_ALLOC_HANDLE))
                   : -error;
    }
    int subscribe(int channel, std::uint64_t handle, std::uint16_t event, std::uint64_t cookie)
    {
        return Method(MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_SUBSCRIBE_EVENT)
            .object(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_FD_HANDLE,
                    static_cast<std::uint64_t>(channel))
            .object(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_OBJ_HANDLE, handle)
            .in(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_TYPE_NUM_LIST, &event, sizeof event)
            .in(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_COOKIE, &cookie, sizeof cookie)
            .call(fd());
    }
    // The cookie of the next event; ~0: none has come.
    static std::uint64_t next_cookie(int channel, int milliseconds = 5000)
    {
        pollfd event = {channel, POLLIN, 0};
        std::uint64_t cookie = ~0ull;
        if (::poll(&event, 1, milliseconds) == 1) {
            EXPECT_EQ(read(channel, &cookie, sizeof cookie), static_cast<ssize_t>(sizeof cookie));
        }
        return cookie;
    }

    std::uint32_t pd_number() const { return number_of_pd(device.pd); }
    static std::uint32_t number_of_pd(ibv_pd* pd) { return pd->handle; } // as softmlx5 has them

    // Where things lie in the memory.
    static constexpr std::size_t kRecords = 0, kCq = 4096, kSendQueue = 8192, kRmp = 12288;

    Command cq_command(std::size_t record = 0)
    {
        Command command(kCreateCq, 272);
        command.put(20, umem.id).put(28, 4u << 24).put(76, static_cast<std::uint32_t>(record));
        return command.put(84, kCq).put(88, umem.id); // 16 entries of 64 bytes
    }
    Command rmp_command()
    {
        Command command(kCreateRmp, 272);
        command.put(32, 1u << 20).put(80, 1u << 28); // ready, a ring
        command.put(88, pd_number()).put(100, 128);  // record
        command.put(80 + 32, 5u << 16 | 4);          // 16 of 32 bytes
        return command.put(80 + 40, umem.id).put(80 + 44, umem.id).put(80 + 52, kRmp);
    }
    Command qp_command(std::uint32_t cq, std::uint32_t rmp, unsigned service = 0)
    {
        Command command(kCreateQp, 272);
        constexpr std::size_t qpc = 24;
        command.put(qpc, service << 16 | 3u << 11).put(qpc + 4, pd_number());
        command.put(qpc + 8, 4u << 11);  // 16 blocks
        command.put(qpc + 16, 0x123456); // the program's number for it
        command.put(qpc + 124, cq).put(qpc + 156, cq);
        command.put(qpc + 164, 64).put(qpc + 228, umem.id); // record
        command.put(qpc + 172, rmp == 0 ? 3u << 24 : 1u << 24 | rmp);
        return command.put(260, kSendQueue).put(264, umem.id);
    }
    // The three changes of state that connect it to itself.
    std::vector<Command> connection(std::uint32_t number) const
    {
        ibv_port_attr port;
        EXPECT_EQ(ibv_query_port(device.context, 1, &port), 0);
        constexpr std::size_t qpc = 24, path = qpc + 24;
        Command init(kReset2Init, 272), rtr(kInit2Rtr, 272), rts(kRtr2Rts, 272);
        init.put(8, number).put(path + 36, 1u << 16).put(qpc + 144, 1u << 14);
        rtr.put(8, number).put(16, 0xe).put(qpc + 8, 5u << 29 | 30u << 24).put(qpc + 20, number);
        rtr.put(path + 4, port.lid).put(path + 36, 1u << 16).put(qpc + 144, 7u << 13);
        rtr.put(qpc + 148, 12u << 24);
        rts.put(8, number).put(qpc + 112, 7u << 16 | 7u << 13).put(path + 8, 12u << 27);
        return {init, rtr, rts};
    }
    // A QP that is.
    Answer create_connected(const Answer& cq, const Answer& rmp)
    {
        const Answer qp = create(qp_command(cq.number(), rmp.number()));
        EXPECT_TRUE(qp.is_ok());
        for (const Command& change : connection(qp.number())) {
            EXPECT_TRUE(modify(qp.handle, change).is_ok());
        }
        return qp;
    }

    template <class T>
    T& at(std::size_t offset)
    {
        return *reinterpret_cast<T*>(memory.data() + offset);
    }

    void SetUp() override
    {
        umem = register_umem(memory.data(), memory.size());
        ASSERT_EQ(umem.error, 0);
    }

    struct alignas(4096) Page {
        unsigned char bytes[4096];
    };
    std::vector<Page> pages = std::vector<Page>(5);
    std::span<unsigned char> memory{pages[0].bytes, 4 * sizeof(Page)};
    Device device; // goes first: the objects that a test leaves have their queues in the memory
    Umem umem = {};
};
