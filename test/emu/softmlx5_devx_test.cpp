// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// DEVX on softmlx5: objects made by commands in the device's own format, and what bad commands get.
// Here all fields are named by their places in bytes.
#include "softhca_fixture.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
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

namespace {

enum Opcode : std::uint32_t {
    kQueryHcaCap = 0x100,
    kCreateMkey = 0x200,
    kCreateCq = 0x400,
    kCreateQp = 0x500,
    kReset2Init = 0x502,
    kInit2Rtr = 0x503,
    kRtr2Rts = 0x504,
    k2Err = 0x507,
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

    Device device;
    struct alignas(4096) Page {
        unsigned char bytes[4096];
    };
    std::vector<Page> pages = std::vector<Page>(5);
    std::span<unsigned char> memory{pages[0].bytes, 4 * sizeof(Page)};
    Umem umem = {};
};

TEST_F(Devx, TellsItsCapabilities)
{
    const Answer answer = general(Command(kQueryHcaCap, 16).put(4, 1)); // of now, general ones
    ASSERT_TRUE(answer.is_ok());
    const auto word = [&answer](unsigned bit) { return answer.get(16 + bit / 8); };
    EXPECT_EQ(word(0x1c0) >> 24 & 0x1f, 30u) << "log_max_msg";
    EXPECT_EQ(word(0x200) >> 31, 1u) << "compact_address_vector";
    EXPECT_EQ(word(0x200) >> 5 & 1, 1u) << "dct";
    EXPECT_NE(word(0x380) >> 24 & 0x1f, 0u) << "log_max_rmp";
    EXPECT_EQ(word(0x100) >> 23 & 1, 0u) << "fixed_buffer_size: no keys of lists";
    EXPECT_TRUE(general(Command(kQueryHcaCap, 16).put(4, 3 << 1 | 1)).is_ok()) << "atomics";
    EXPECT_TRUE(general(Command(kQueryLag, 16)).is_ok());
}

TEST_F(Devx, CarriesAMessage)
{
    const Answer cq = create(cq_command()), rmp = create(rmp_command());
    ASSERT_TRUE(cq.is_ok());
    ASSERT_TRUE(rmp.is_ok());
    EXPECT_NE(rmp.number(), 0u) << "UCX takes it for none";
    const Answer qp = create(qp_command(cq.number(), rmp.number()));
    ASSERT_TRUE(qp.is_ok());
    for (const Command& change : connection(qp.number())) {
        ASSERT_TRUE(modify(qp.handle, change).is_ok());
    }

    const int channel = open_channel();
    ASSERT_GE(channel, 0);
    ASSERT_EQ(subscribe(channel, cq.handle, 0, 77), 0);
    at<std::uint32_t>(kRecords + 4) = htobe32(1u << 28); // armed: at the next completion

    std::vector<unsigned char> buffer(4096);
    ibv_mr* const mr = ibv_reg_mr(device.pd, buffer.data(), buffer.size(), kAllAccess);
    ASSERT_NE(mr, nullptr);
    const auto address = reinterpret_cast<std::uint64_t>(buffer.data());
    fill(buffer.data(), 100, 1);
    at<mlx5_wqe_data_seg>(kRmp + 16) = {htobe32(1000), htobe32(mr->lkey), htobe64(address + 1000)};
    __atomic_store_n(&at<std::uint32_t>(kRecords + 128), htobe32(1), __ATOMIC_RELEASE);
    auto& control = at<mlx5_wqe_ctrl_seg>(kSendQueue);
    control.opmod_idx_opcode = htobe32(MLX5_OPCODE_SEND);
    control.qpn_ds = htobe32(qp.number() << 8 | 2);
    control.fm_ce_se = 8;
    at<mlx5_wqe_data_seg>(kSendQueue + 16) = {htobe32(100), htobe32(mr->lkey), htobe64(address)};
    __atomic_store_n(&at<std::uint32_t>(kRecords + 64 + 4), htobe32(1), __ATOMIC_RELEASE);

    EXPECT_EQ(next_cookie(channel), 77u);
    for (int i = 0; i < 5000 && at<mlx5_cqe64>(kCq + 64).sop_drop_qpn == 0; ++i) {
        usleep(1000);
    }
    EXPECT_TRUE(is_filled(buffer.data() + 1000, 100, 1));
    for (const std::size_t entry : {kCq, kCq + 64}) {
        EXPECT_EQ(be32toh(at<mlx5_cqe64>(entry).srqn_uidx), 0x123456u);
        EXPECT_EQ(be32toh(at<mlx5_cqe64>(entry).sop_drop_qpn) & 0xffffff, qp.number());
    }

    const Answer found = query(qp.handle, Command(kQueryQp, 16).put(8, qp.number()));
    ASSERT_TRUE(found.is_ok());
    EXPECT_EQ(found.get(24) >> 28, 3u) << "RTS";
    EXPECT_EQ(found.get(24 + 20) & 0xffffff, qp.number());

    EXPECT_EQ(deregister(umem), EBUSY);
    EXPECT_EQ(destroy(cq.handle), EBUSY);
    EXPECT_EQ(destroy(rmp.handle), EBUSY);
    EXPECT_EQ(destroy(qp.handle), 0);
    EXPECT_EQ(destroy(rmp.handle), 0);
    EXPECT_EQ(destroy(cq.handle), 0);
    EXPECT_EQ(deregister(umem), 0);
    EXPECT_EQ(close(channel), 0);
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST_F(Devx, TellsOfTheLastReceive)
{
    const Answer cq = create(cq_command()), rmp = create(rmp_command());
    const Answer qp = create(qp_command(cq.number(), rmp.number()));
    ASSERT_TRUE(qp.is_ok());
    for (const Command& change : connection(qp.number())) {
        ASSERT_TRUE(modify(qp.handle, change).is_ok());
    }
    const int channel = open_channel();
    ASSERT_GE(channel, 0);
    EXPECT_EQ(subscribe(channel, qp.handle, 0x13, 5), 0);
    EXPECT_TRUE(modify(qp.handle, Command(k2Err, 16).put(8, qp.number())).is_ok());
    EXPECT_EQ(next_cookie(channel), 5u);

    // A channel that nobody reads any more is no harm.
    const Answer other = create(qp_command(cq.number(), rmp.number()));
    ASSERT_TRUE(other.is_ok());
    EXPECT_EQ(subscribe(channel, other.handle, 0x13, 6), 0);
    for (const Command& change : connection(other.number())) {
        ASSERT_TRUE(modify(other.handle, change).is_ok());
    }
    EXPECT_EQ(close(channel), 0);
    EXPECT_TRUE(modify(other.handle, Command(k2Err, 16).put(8, other.number())).is_ok());
    usleep(50'000);
    for (const Answer& object : {other, qp, rmp, cq}) {
        EXPECT_EQ(destroy(object.handle), 0);
    }
}

TEST_F(Devx, BadCommandsGetAStatus)
{
    EXPECT_EQ(general(Command(kQueryHcaCap, 8)).error, EINVAL) << "not even an opcode's";
    EXPECT_TRUE(general(Command(static_cast<Opcode>(0xeee), 16)).is(kBadOperation));
    EXPECT_TRUE(general(Command(kCreateCq, 272)).is(kBadOperation)) << "no command of this method";
    EXPECT_TRUE(create(Command(kQueryLag, 16)).is(kBadOperation));
    EXPECT_TRUE(create(Command(kCreateMkey, 272)).is(kBadOperation));
    for (const Opcode opcode : {kCreateCq, kCreateQp, kCreateRmp, kCreateDct}) {
        EXPECT_TRUE(create(Command(opcode, 16)).is(kBadInputLength)) << opcode;
    }
}

TEST_F(Devx, ForeignObjectsGetAStatus)
{
    const Answer cq = create(cq_command());
    ASSERT_TRUE(cq.is_ok());
    EXPECT_TRUE(create(qp_command(999, 0)).is(kBadResource)) << "no such CQ";
    EXPECT_TRUE(create(qp_command(cq.number(), 999)).is(kBadResource)) << "no such RMP";
    EXPECT_TRUE(create(qp_command(cq.number(), 0).put(28, 0xfff000)).is(kBadResource)) << "PD";
    EXPECT_TRUE(create(qp_command(cq.number(), 0, 3)).is(kBadParameter)) << "XRC";
    EXPECT_TRUE(create(cq_command().put(16, 1u << 20)).is(kBadParameter)) << "collapsed";
    // The last entry would be behind the registered memory, in memory of the program all the same.
    EXPECT_EQ(create(cq_command().put(84, kRmp + 3136)).get(4), 5u);
    EXPECT_TRUE(create(cq_command().put(84, 1)).is(kBadParameter)) << "at an odd place";
    EXPECT_TRUE(create(cq_command().put(88, 999)).is(kBadParameter)) << "of no memory";
    EXPECT_TRUE(create(cq_command().put(28, 31u << 24)).is(kBadParameter)) << "too large";
    EXPECT_TRUE(create(rmp_command().put(112, 0xf << 16 | 31)).is(kBadParameter));

    const Answer qp = create(qp_command(cq.number(), 0));
    ASSERT_TRUE(qp.is_ok());
    const auto change = connection(qp.number());
    EXPECT_TRUE(modify(cq.handle, change[0]).is(kBadResource)) << "a CQ is no QP";
    EXPECT_TRUE(
        modify(qp.handle, Command(kReset2Init, 272).put(8, qp.number() ^ 1)).is(kBadResource));
    EXPECT_TRUE(
        modify(qp.handle, Command(kReset2Init, 16).put(8, qp.number())).is(kBadInputLength));
    EXPECT_TRUE(modify(qp.handle, change[1]).is(kBadQpState)) << "from RESET to RTR";
    EXPECT_TRUE(modify(qp.handle, Command(kQueryQp, 16).put(8, qp.number())).is(kBadOperation));
    EXPECT_TRUE(query(qp.handle, change[0]).is(kBadOperation));
    EXPECT_TRUE(modify(qp.handle, Command(kReset2Init, 272).put(8, qp.number())).is(kBadParameter))
        << "of port 0";
    EXPECT_EQ(destroy(qp.handle), 0);
    EXPECT_EQ(destroy(qp.handle), ENOENT);
    EXPECT_TRUE(modify(qp.handle, change[0]).is(kBadResource)) << "destroyed";
    EXPECT_EQ(destroy(cq.handle), 0);
    EXPECT_TRUE(create(qp_command(cq.number(), 0)).is(kBadResource)) << "destroyed";
}

TEST_F(Devx, KnowsNoOtherMemoryAndEvents)
{
    EXPECT_EQ(register_umem(nullptr, 4096).error, EFAULT);
    EXPECT_EQ(register_umem(memory.data(), 0).error, EINVAL);
    EXPECT_EQ(register_umem(memory.data(), ~0ull - 4096).error, EINVAL);
    EXPECT_EQ(deregister({0, 999, 999}), ENOENT);
    EXPECT_EQ(open_channel(0), -EOPNOTSUPP) << "events with data";
    const int channel = open_channel();
    ASSERT_GE(channel, 0);
    EXPECT_EQ(subscribe(channel, 999, 0, 0), ENOENT);
    const Answer cq = create(cq_command());
    EXPECT_EQ(subscribe(channel, cq.handle, 0x13, 0), EOPNOTSUPP) << "not of a CQ";
    EXPECT_EQ(subscribe(channel + 1, cq.handle, 0, 0), EBADF);
    EXPECT_EQ(destroy(cq.handle), 0);
    EXPECT_EQ(close(channel), 0);
}

TEST_F(Devx, ObjectsMayBeLeft)
{
    const Answer cq = create(cq_command()), rmp = create(rmp_command());
    EXPECT_TRUE(cq.is_ok());
    EXPECT_EQ(subscribe(open_channel(), cq.handle, 0, 0), 0);
    EXPECT_EQ(ibv_dealloc_pd(device.pd), EBUSY);
    EXPECT_EQ(destroy(rmp.handle), 0); // the rest goes with the context
}

TEST(WithoutDevx, DISABLED_TheDeviceHasNone)
{
    Device device;
    Command command(kQueryLag, 16);
    unsigned char out[16];
    EXPECT_EQ(Method(MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_OTHER)
                  .in(MLX5_IB_ATTR_DEVX_OTHER_CMD_IN, command.bytes.data(), command.bytes.size())
                  .out(MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT, out, sizeof out)
                  .call(device.context->cmd_fd),
              EPROTONOSUPPORT);
}

TEST(WithoutDevx, IfTheVariableSaysSo)
{
    EXPECT_TRUE(run_tests("WithoutDevx.DISABLED_*", {"SOFTMLX5_DEVX=n"}));
}

} // namespace
