// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The commands. Bytes are written in hexadecimal.
#include "doctor/peer/commands.hpp"

#include <functional>
#include <map>
#include <sstream>
#include <stdexcept>

namespace gdr::peer {
namespace {

constexpr const char* kDigits = "0123456789abcdef";

std::string hex(const std::string& bytes)
{
    std::string text;
    for (const char byte : bytes) {
        text += kDigits[static_cast<unsigned char>(byte) >> 4];
        text += kDigits[static_cast<unsigned char>(byte) & 15];
    }
    return text;
}

std::string bytes_of(const std::string& text)
{
    std::string bytes;
    for (size_t i = 0; i + 1 < text.size(); i += 2) {
        bytes += static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16));
    }
    return bytes;
}

class Words {
  public:
    explicit Words(const std::string& line) : stream_(line) {}

    template <class Type>
    Type take()
    {
        Type word{};
        if (!(stream_ >> word)) {
            throw std::runtime_error("a word is missing in: " + stream_.str());
        }
        return word;
    }

  private:
    std::istringstream stream_;
};

// What is answered behind "ok".
using Command = std::function<std::string(Peer&, Words&)>;

// Of the buffer: its address, the packed key, and the GPU.
std::string take_memory(Peer& peer, Words& words)
{
    const auto kind = words.take<std::string>();
    const auto length = words.take<size_t>();
    const Memory& memory = peer.take_memory(kind, length, words.take<std::string>());
    return std::to_string(reinterpret_cast<uintptr_t>(memory.address())) + " " +
           hex(peer.packed_key()) + " " + memory.gpu();
}

std::string has(Peer& peer, Words& words)
{
    const auto seed = words.take<uint64_t>();
    const auto count = words.take<size_t>();
    return peer.memory().has(seed, count, words.take<uint64_t>()) ? "right" : "wrong";
}

Command of_length(void (Peer::*transfer)(size_t))
{
    return [transfer](Peer& peer, Words& words) {
        (peer.*transfer)(words.take<size_t>());
        return std::string();
    };
}

const std::map<std::string, Command>& commands()
{
    static const std::map<std::string, Command> all{
        {"connect",
         [](Peer& peer, Words& words) {
             peer.connect(bytes_of(words.take<std::string>()));
             return std::string();
         }},
        {"memory", take_memory},
        {"remote",
         [](Peer& peer, Words& words) {
             const auto address = words.take<uint64_t>();
             peer.take_remote(address, bytes_of(words.take<std::string>()));
             return std::string();
         }},
        {"fill",
         [](Peer& peer, Words& words) {
             peer.memory().fill(words.take<uint64_t>());
             return std::string();
         }},
        {"has", has},
        {"put", of_length(&Peer::put)},
        {"get", of_length(&Peer::get)},
        {"send", of_length(&Peer::send)},
        {"receive", of_length(&Peer::receive)},
        {"ping",
         [](Peer& peer, Words& words) {
             const auto length = words.take<size_t>();
             return std::to_string(1e6 * peer.ping(length, words.take<size_t>()));
         }},
        {"pong",
         [](Peer& peer, Words& words) {
             const auto length = words.take<size_t>();
             peer.pong(length, words.take<size_t>());
             return std::string();
         }},
        {"stream",
         [](Peer& peer, Words& words) {
             return std::to_string(1e-9 * peer.stream(words.take<double>()));
         }},
    };
    return all;
}

} // namespace

std::string introduction(const Peer& peer)
{
    return "ok " + hex(peer.address()) + " " + std::to_string(gpus());
}

std::string answer(Peer& peer, const std::string& line)
{
    try {
        Words words(line);
        const auto command = commands().find(words.take<std::string>());
        if (command == commands().end()) {
            throw std::runtime_error("no such command: " + line);
        }
        const std::string result = command->second(peer, words);
        return result.empty() ? "ok" : "ok " + result;
    } catch (const std::exception& error) {
        return std::string("failed ") + error.what();
    }
}

} // namespace gdr::peer
