// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "sync/network/network.hpp"

#include "cuda/pointer.hpp"
#include "log/log.hpp"
#include "sync/network/blob.hpp"
#include "sync/ucx/log.hpp"
#include "sync/ucx/refusal.hpp"

#include <cstdlib>
#include <random>
#include <string_view>

namespace gdr::sync {
namespace {

// The GPU of the calling thread's context; -1: there is none.
CUdevice current_gpu()
{
    const cuda::Driver* driver = driver_in_use();
    CUdevice gpu = -1;
    return driver != nullptr && driver->cuCtxGetDevice(&gpu) == CUDA_SUCCESS ? gpu : -1;
}

cuda::MemoryKind kind_of(const void* address)
{
    const cuda::Driver* driver = driver_in_use();
    return driver != nullptr ? cuda::classify(*driver, address).kind : cuda::MemoryKind::host;
}

// As UCX reads a boolean.
bool ipc_is_on()
{
    const char* const text = std::getenv("UCX_GDR_IPC");
    const std::string_view value = text != nullptr ? text : "y";
    return value != "n" && value != "no" && value != "off" && value != "0";
}

template <typename Handle>
Handle* keep(std::map<Handle*, std::unique_ptr<Handle>>& all, std::unique_ptr<Handle> made)
{
    Handle* const handle = made.get();
    all.emplace(handle, std::move(made));
    return handle;
}

} // namespace

Network::Network(const Ucx& ucx, bool direct, std::unique_ptr<UcpAccess> ucp)
    : ucx_(ucx), direct_(direct), mapped_by_kernels_(ipc_is_on()), ucp_(std::move(ucp))
{
}

uint64_t Network::random_number()
{
    std::random_device device;
    return uint64_t{device()} << 32 | device();
}

direct::Hcas& Network::hcas()
{
    if (!hcas_) {
        lead_log(ucx_);
        hcas_ = direct_ ? direct::Hcas(current_gpu())
                        : direct::Hcas("it was told so (UGDR_CONTEXT_FLAG_NO_DIRECT)");
    }
    return *hcas_;
}

// ---- memories

ugdr_mem* Network::map(void* address, size_t length)
{
    const auto start = reinterpret_cast<uint64_t>(address);
    if (address == nullptr || length == 0 || start + length < start) {
        throw Refusal(UCS_ERR_INVALID_PARAM, "ugdr_mem_map: no memory, or none of such a length");
    }
    const std::lock_guard guard(lock_);
    return map_locked(address, length);
}

ugdr_mem* Network::map_locked(void* address, size_t length)
{
    const auto start = reinterpret_cast<uint64_t>(address);
    auto made = std::make_unique<ugdr_mem>(ugdr_mem{{*this}});
    made->regions = hcas().register_memory(start, length);
    Memory memory;
    memory.address = start;
    memory.length = length;
    memory.host = kind_of(address) == cuda::MemoryKind::host;
    BlobWriter writer(BlobKind::memory);
    writer.add(Extent{process_, start, length, static_cast<uint32_t>(made->regions.size()),
                      uint32_t{memory.host}});
    for (const verbs::MemoryRegion& region : made->regions) {
        memory.keys.push_back(region->lkey);
        writer.add(uint32_t{region->rkey});
    }
    UcpAccess::Mapped ucp;
    if (ucp_ != nullptr) {
        try {
            ucp = ucp_->map(address, length);
        } catch (const Refusal&) {
            if (made->regions.empty()) {
                throw;
            }
        }
    }
    made->ucp = ucp.handle;
    writer.add_counted(ucp.rkey.data(), ucp.rkey.size());
    std::optional<Reach> reach;
    if (mapped_by_kernels_) {
        reach = reach_of(address, length);
        writer.add(share(address, length));
    } else {
        writer.add(Shared{});
    }
    made->address = start;
    made->length = length;
    made->blob = writer.finished();
    ugdr_mem* const handle = keep(mapped_, std::move(made));
    own_memories::add(process_, start, length);
    try {
        const bool host = memory.host;
        handle->id = id_of(memories.add(std::move(memory)), host);
        if (reach) {
            addresses.add(AddressTable::Half::ours, handle->id, *reach);
        }
    } catch (...) {
        if (handle->id != 0) {
            memories.end(number_of(handle->id));
        }
        forget(handle);
        throw;
    }
    return handle;
}

void Network::unmap(ugdr_mem* memory)
{
    const std::lock_guard guard(lock_);
    if (!memories.end(number_of(memory->id))) {
        throw Refusal(UCS_ERR_BUSY, "ugdr_mem_unmap: operations of kernels use the memory");
    }
    forget(memory);
}

void Network::forget(ugdr_mem* memory)
{
    addresses.remove(AddressTable::Half::ours, memory->id);
    own_memories::remove(process_, memory->address, memory->length);
    if (memory->ucp != nullptr) {
        ucp_->unmap(memory->ucp);
    }
    mapped_.erase(memory);
}

ugdr_rmem* Network::import(Peer& peer, const void* blob, size_t length)
{
    const std::lock_guard guard(lock_);
    return import_locked(peer, blob, length);
}

ugdr_rmem* Network::import_locked(Peer& peer, const void* blob, size_t length)
{
    BlobReader reader("ugdr_rmem_import", blob, length, BlobKind::memory);
    const auto extent = reader.take<Extent>();
    if (peer.status() == UCS_ERR_NOT_CONNECTED) {
        reader.refuse(UCS_ERR_NOT_CONNECTED, "the peer is not connected");
    }
    if (extent.process != peer.process()) {
        reader.refuse(UCS_ERR_INVALID_PARAM, "the memory is of another context than the peer's");
    }
    if (extent.keys != peer.hcas()) {
        reader.refuse(UCS_ERR_INVALID_PARAM, "the blob contradicts that of the peer");
    }
    RemoteMemory memory;
    memory.lanes = &peer.lanes();
    memory.address = extent.address;
    memory.length = extent.length;
    memory.host = extent.host != 0;
    memory.keys = reader.take_values<uint32_t>(extent.keys);
    const BlobReader::Piece rkey = reader.take_counted();
    const auto shared = reader.take<Shared>();
    ugdr_rmem* const handle = keep(imported_, std::make_unique<ugdr_rmem>(ugdr_rmem{{peer}}));
    ++peer.imported;
    try {
        if (peer.ep() != nullptr) {
            if (rkey.length == 0) {
                reader.refuse(UCS_ERR_INVALID_PARAM, "the blob contradicts that of the peer");
            }
            memory.ucp = handle->ucp = ucp_->unpack(peer.ep(), rkey.data);
        }
        handle->id = remote_memories.add(std::move(memory));
    } catch (...) {
        forget(handle);
        throw;
    }
    if (mapped_by_kernels_ && is_near(shared)) {
        handle->id |= UGDR_RMEM_ID_NEAR;
        show_to_kernels(*handle, shared, extent);
    }
    return handle;
}

// Where it cannot be, rings carry the operations.
void Network::show_to_kernels(ugdr_rmem& imported, const Shared& shared, const Extent& extent)
{
    try {
        std::optional<Reach> reach;
        if (own_memories::contains(extent.process, extent.address, extent.length)) {
            reach = reach_of(reinterpret_cast<const void*>(extent.address), extent.length);
        } else {
            imported.opened = std::make_unique<Opened>(shared, extent.length);
            reach = imported.opened->reach();
        }
        if (reach) {
            addresses.add(AddressTable::Half::peers, imported.id, *reach,
                          reinterpret_cast<uintptr_t>(&imported.peer));
        }
    } catch (const std::runtime_error& error) {
        gdr_log(info, "an HCA carries what kernels send to memory of a peer on this host: %s",
                error.what());
    }
}

void Network::release(ugdr_rmem* memory)
{
    const std::lock_guard guard(lock_);
    if (!remote_memories.end(number_of(memory->id))) {
        throw Refusal(UCS_ERR_BUSY, "ugdr_rmem_release: operations of kernels use the memory");
    }
    forget(memory);
}

void Network::forget(ugdr_rmem* memory)
{
    addresses.remove(AddressTable::Half::peers, memory->id);
    if (memory->ucp != nullptr) {
        ucp_->release(memory->ucp);
    }
    Peer& peer = memory->peer;
    if (peer.far_mailbox == memory) {
        peer.far_mailbox = nullptr;
    }
    --peer.imported;
    imported_.erase(memory);
}

// ---- peers

ugdr_peer* Network::add_peer(unsigned channels)
{
    const std::lock_guard guard(lock_);
    auto mailbox = std::make_unique<Mailbox>();
    ugdr_mem* const memory = map_locked(mailbox.get(), sizeof(*mailbox));
    try {
        return keep(peers_, std::make_unique<ugdr_peer>(*this, channels, current_gpu(),
                                                        std::move(mailbox), memory));
    } catch (...) {
        forget(memory);
        throw;
    }
}

void Network::connect(Peer& peer, const void* blob, size_t length)
{
    const std::lock_guard guard(lock_);
    const std::vector<uint8_t> mailbox = peer.connect(blob, length);
    peer.far_mailbox = import_locked(peer, mailbox.data(), mailbox.size());
}

void Network::destroy(ugdr_peer* peer)
{
    const std::lock_guard guard(lock_);
    if (peer->transfers > 0) {
        throw Refusal(UCS_ERR_BUSY, "ugdr_peer_destroy: prepared transfers go to the peer "
                                    "(ugdr_transfer_destroy())");
    }
    if (peer->imported > (peer->far_mailbox != nullptr ? 1 : 0)) {
        throw Refusal(UCS_ERR_BUSY,
                      "ugdr_peer_destroy: memories of the peer are imported (ugdr_rmem_release())");
    }
    forget(peer);
}

void Network::forget(ugdr_peer* peer)
{
    peer->correspondence.reset();
    if (peer->far_mailbox != nullptr) {
        remote_memories.end(number_of(peer->far_mailbox->id));
        forget(peer->far_mailbox);
    }
    if (peer->ep() != nullptr) {
        ucp_->close(peer->ep());
    }
    ugdr_mem* const mailbox = peer->mailbox_memory;
    memories.end(number_of(mailbox->id));
    const std::unique_ptr<ugdr_peer> ended = std::move(peers_.at(peer));
    peers_.erase(peer);
    forget(mailbox);
}

void Network::close()
{
    const std::lock_guard guard(lock_);
    for (const auto& [peer, owned] : peers_) {
        peer->correspondence.reset();
    }
    const auto forget_all = [this](auto& all) {
        while (!all.empty()) {
            forget(all.begin()->first);
        }
    };
    forget_all(imported_);
    forget_all(peers_);
    forget_all(mapped_);
}

} // namespace gdr::sync
