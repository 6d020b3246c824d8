// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "emu/softnccl/communicator.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <sstream>

namespace softnccl {

std::atomic<unsigned> operations, at_once;

namespace {

std::mutex error_mutex;
std::string& error()
{
    static auto& text = *new std::string;
    return text;
}

void check(CUresult result)
{
    if (result != CUDA_SUCCESS) {
        throw Failure(Result::unhandled_cuda_error, "CUDA error " + std::to_string(result));
    }
}

template <typename Value>
void reduce_as(char* sums, const char* values, size_t bytes, Operation operation)
{
    auto* const sum = reinterpret_cast<Value*>(sums);
    const auto* const value = reinterpret_cast<const Value*>(values);
    for (size_t i = 0; i < bytes / sizeof(Value); ++i) {
        switch (operation) {
        case Operation::sum:
            sum[i] = static_cast<Value>(sum[i] + value[i]);
            break;
        case Operation::prod:
            sum[i] = static_cast<Value>(sum[i] * value[i]);
            break;
        case Operation::max:
            sum[i] = std::max(sum[i], value[i]);
            break;
        case Operation::min:
            sum[i] = std::min(sum[i], value[i]);
            break;
        }
    }
}

void reduce_values(char* sums, const char* values, size_t bytes, Type type, Operation operation)
{
    switch (type) {
    case Type::int8:
        return reduce_as<int8_t>(sums, values, bytes, operation);
    case Type::uint8:
        return reduce_as<uint8_t>(sums, values, bytes, operation);
    case Type::int32:
        return reduce_as<int32_t>(sums, values, bytes, operation);
    case Type::uint32:
        return reduce_as<uint32_t>(sums, values, bytes, operation);
    case Type::int64:
        return reduce_as<int64_t>(sums, values, bytes, operation);
    case Type::uint64:
        return reduce_as<uint64_t>(sums, values, bytes, operation);
    case Type::float32:
        return reduce_as<float>(sums, values, bytes, operation);
    case Type::float64:
        return reduce_as<double>(sums, values, bytes, operation);
    }
}

// piece(offset, bytes), at least one.
template <typename Piece>
void for_each_piece(size_t bytes, Piece piece)
{
    size_t at = 0;
    do {
        piece(at, std::min(kSlot, bytes - at));
        at += kSlot;
    } while (at < bytes);
}

// Which of the CUDA stream's positions the thread has to wait for, and which waits for it.
struct Turn {
    std::mutex mutex;
    std::condition_variable changed;
    bool come = false, over = false;

    void set(bool Turn::*what)
    {
        const std::lock_guard guard(mutex);
        this->*what = true;
        changed.notify_all();
    }
};

// On a thread of the stream's.
void CUDA_CB take_turn(void* shared)
{
    const std::unique_ptr<std::shared_ptr<Turn>> turn(static_cast<std::shared_ptr<Turn>*>(shared));
    (*turn)->set(&Turn::come);
    std::unique_lock lock((*turn)->mutex);
    (*turn)->changed.wait(lock, [&] { return (*turn)->over; });
}

// An operation that the GPU is at.
class Running {
  public:
    Running()
    {
        const std::lock_guard guard(mutex());
        at_once = std::max(at_once.load(), ++now());
    }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;
    ~Running()
    {
        const std::lock_guard guard(mutex());
        --now();
    }

  private:
    static std::mutex& mutex()
    {
        static auto& instance = *new std::mutex; // threads may end after static destructors
        return instance;
    }
    static unsigned& now()
    {
        static unsigned number = 0;
        return number;
    }
};

} // namespace

size_t size_of(Type type)
{
    switch (type) {
    case Type::int8:
    case Type::uint8:
        return 1;
    case Type::int32:
    case Type::uint32:
    case Type::float32:
        return 4;
    default:
        return 8;
    }
}

std::string last_error()
{
    const std::lock_guard guard(error_mutex);
    return error();
}

Fault Fault::from_environment()
{
    Fault fault;
    const char* const text = std::getenv("SOFTNCCL_FAULT");
    if (text == nullptr) {
        return fault;
    }
    std::istringstream stream(text);
    char colon;
    std::getline(stream, fault.kind, ':');
    stream >> fault.rank >> colon >> fault.number >> colon >> fault.ms;
    return fault;
}

Communicator::Communicator(const std::string& name, int ranks, int rank) : room_(name, ranks, rank)
{
    CUcontext context = nullptr;
    check(cuCtxGetCurrent(&context));
    check(cuStreamCreate(&copies_, CU_STREAM_NON_BLOCKING));
    tasks_.push_back([this] { begin(); });
    thread_ = std::thread([this, context] { serve(context); });
}

Communicator::~Communicator()
{
    {
        const std::lock_guard guard(mutex_);
        ended_ = true;
        changed_.notify_all();
    }
    thread_.join();
    cuStreamDestroy(copies_);
}

void Communicator::post(std::function<void()> task)
{
    const std::lock_guard guard(mutex_);
    state_ = Result::in_progress;
    tasks_.push_back(std::move(task));
    changed_.notify_all();
}

void Communicator::serve(CUcontext context)
{
    cuCtxSetCurrent(context);
    for (;;) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return ended_ || !tasks_.empty(); });
        if (tasks_.empty()) {
            return;
        }
        const auto task = std::move(tasks_.front());
        tasks_.pop_front();
        lock.unlock();
        try {
            task();
        } catch (const Failure& failure) {
            fail(failure.result, failure.what());
        } catch (const Aborted&) {
        }
    }
}

void Communicator::fail(Result result, const std::string& why)
{
    {
        const std::lock_guard guard(error_mutex);
        error() = "softnccl: " + why;
    }
    state_ = result;
}

void Communicator::begin()
{
    if (fault_.kind == "init" && fault_.rank == room_.rank()) {
        throw Failure(Result::system_error, "as asked for");
    }
    CUdevice device;
    CUuuid uuid;
    check(cuCtxGetDevice(&device));
    check(cuDeviceGetUuid(&uuid, device));
    std::memcpy(room_.own().gpu, uuid.bytes, sizeof(uuid));
    room_.meet();
    for (int rank = 0; rank < room_.ranks(); ++rank) {
        if (rank != room_.rank() &&
            std::memcmp(room_.slot(rank).gpu, uuid.bytes, sizeof(uuid)) == 0) {
            throw Failure(Result::invalid_usage, "Duplicate GPU detected");
        }
    }
    state_ = Result::success;
}

void Communicator::issue(std::vector<Order> orders, CUstream stream)
{
    post([this, orders = std::move(orders), stream]() mutable {
        launch(std::move(orders), stream);
    });
}

void Communicator::launch(std::vector<Order> orders, CUstream stream)
{
    const auto turn = std::make_shared<Turn>();
    check(cuLaunchHostFunc(stream, take_turn, new std::shared_ptr<Turn>(turn)));
    state_ = Result::success; // it is on the stream; what follows is the kernel's
    {
        std::unique_lock lock(turn->mutex);
        turn->changed.wait(lock, [&] { return turn->come; });
    }
    const Running running;
    try {
        run(orders);
    } catch (const Failure& failure) {
        fail(failure.result, failure.what());
        while (!room_.aborted()) { // a kernel that waits for a peer does not end
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
    } catch (const Aborted&) {
    }
    turn->set(&Turn::over);
}

void Communicator::run(const std::vector<Order>& orders)
{
    ++operations;
    if (++calls_ == fault_.number && fault_.rank == room_.rank()) {
        if (fault_.kind == "async") {
            throw Failure(Result::remote_error, "as asked for");
        }
        if (fault_.kind == "stall") {
            std::this_thread::sleep_for(std::chrono::milliseconds(fault_.ms));
        }
    }
    const auto is_message = [](const Order& order) {
        return order.kind == Order::Kind::send || order.kind == Order::Kind::receive;
    };
    if (std::any_of(orders.begin(), orders.end(), is_message)) {
        exchange(orders);
        return;
    }
    for (const Order& order : orders) {
        run(order);
    }
}

void Communicator::run(const Order& order)
{
    const size_t bytes = order.count * size_of(order.type);
    switch (order.kind) {
    case Order::Kind::all_reduce:
        reduce(order, order.from, order.to, room_.rank());
        break;
    case Order::Kind::reduce:
        reduce(order, order.from, order.to, order.peer);
        break;
    case Order::Kind::reduce_scatter:
        for (int root = 0; root < room_.ranks(); ++root) {
            reduce(order, order.from + bytes * static_cast<size_t>(root), order.to, root);
        }
        break;
    case Order::Kind::broadcast:
        for_each_piece(bytes, [&](size_t at, size_t length) {
            if (room_.rank() == order.peer) {
                copy(room_.own().data, order.from + at, length);
            }
            room_.meet();
            copy(order.to + at, room_.slot(order.peer).data, length);
            room_.meet();
        });
        break;
    default: // all_gather
        for_each_piece(bytes, [&](size_t at, size_t length) {
            copy(room_.own().data, order.from + at, length);
            room_.meet();
            for (int rank = 0; rank < room_.ranks(); ++rank) {
                copy(order.to + bytes * static_cast<size_t>(rank) + at, room_.slot(rank).data,
                     length);
            }
            room_.meet();
        });
    }
}

// Of as many elements as the order says, in the order of ranks.
void Communicator::reduce(const Order& order, const char* from, char* to, int root)
{
    std::vector<char> sums(kSlot);
    for_each_piece(order.count * size_of(order.type), [&](size_t at, size_t length) {
        copy(room_.own().data, from + at, length);
        room_.meet();
        if (room_.rank() == root) {
            std::memcpy(sums.data(), room_.slot(0).data, length);
            for (int rank = 1; rank < room_.ranks(); ++rank) {
                reduce_values(sums.data(), room_.slot(rank).data, length, order.type,
                              order.operation);
            }
            copy(to + at, sums.data(), length);
        }
        room_.meet();
    });
}

// At most one message each way between two ranks.
void Communicator::exchange(const std::vector<Order>& orders)
{
    const auto find = [&](Order::Kind kind, int peer) {
        const auto found = std::find_if(orders.begin(), orders.end(), [&](const Order& order) {
            return order.kind == kind && order.peer == peer;
        });
        return found == orders.end() ? Order{kind, nullptr, nullptr, 0, Type::int8, {}, peer}
                                     : *found;
    };
    const int ranks = room_.ranks();
    for (int distance = 0; distance < ranks; ++distance) {
        const int source = (room_.rank() + ranks - distance) % ranks;
        const Order out = find(Order::Kind::send, (room_.rank() + distance) % ranks);
        const Order in = find(Order::Kind::receive, source);
        const size_t sent = out.count * size_of(out.type), wanted = in.count * size_of(in.type);
        room_.own().bytes = sent;
        room_.meet();
        size_t longest = 0;
        for (int rank = 0; rank < ranks; ++rank) {
            longest = std::max<size_t>(longest, room_.slot(rank).bytes);
        }
        if (room_.slot(source).bytes != wanted) {
            throw Failure(Result::invalid_usage, "a message of another length");
        }
        for_each_piece(longest, [&](size_t at, size_t) {
            if (at < sent) {
                copy(room_.own().data, out.from + at, std::min(kSlot, sent - at));
            }
            room_.meet();
            if (at < wanted) {
                copy(in.to + at, room_.slot(source).data, std::min(kSlot, wanted - at));
            }
            room_.meet();
        });
    }
}

void Communicator::copy(void* to, const void* from, size_t bytes)
{
    if (bytes == 0) {
        return;
    }
    check(cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(to), reinterpret_cast<CUdeviceptr>(from),
                        bytes, copies_));
    check(cuStreamSynchronize(copies_));
}

void Communicator::finalize()
{
    post([this] {
        room_.meet();
        state_ = Result::success;
    });
}

void Communicator::abort()
{
    room_.abort();
}

} // namespace softnccl
