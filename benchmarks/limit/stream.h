// Random streams: SplitMix64 from a seed that SHA-256 makes (contract section 3).
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

inline uint32_t rotate(uint32_t x, int n) { return x >> n | x << (32 - n); }

// SHA-256 of a message of at most 119 bytes (FIPS 180-4); the first 8 bytes of the digest.
inline uint64_t sha256_start(const uint8_t *message, size_t length) {
    static const uint32_t constants[64] = {
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
        0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
        0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
        0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
        0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
        0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
        0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
        0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
    uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    uint8_t padded[128] = {};
    const size_t blocks = (length + 8) / 64 + 1;
    std::memcpy(padded, message, length);
    padded[length] = 0x80;
    for (int i = 0; i < 8; i++) padded[64 * blocks - 1 - i] = uint8_t(8 * length >> 8 * i);
    for (size_t block = 0; block < blocks; block++) {
        uint32_t w[64];
        for (int i = 0; i < 16; i++) {
            const uint8_t *bytes = padded + 64 * block + 4 * i;
            w[i] = uint32_t(bytes[0]) << 24 | bytes[1] << 16 | bytes[2] << 8 | bytes[3];
        }
        for (int i = 16; i < 64; i++)
            w[i] = w[i - 16] + (rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3) + w[i - 7] +
                   (rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10);
        uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
        uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
        for (int i = 0; i < 64; i++) {
            const uint32_t first =
                h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & f) ^ (~e & g)) + constants[i] + w[i];
            const uint32_t second = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
            h = g, g = f, f = e, e = d + first, d = c, c = b, b = a, a = first + second;
        }
        const uint32_t after[8] = {a, b, c, d, e, f, g, h};
        for (int i = 0; i < 8; i++) state[i] += after[i];
    }
    return uint64_t(state[0]) << 32 | state[1];
}

struct Stream {
    uint64_t seed, position = 0;

    Stream(const std::string &label, uint64_t number) {
        std::string text = std::string("emberbench/simulator/stream/v1") + '\0' + label + '\0';
        for (int shift = 56; shift >= 0; shift -= 8) text.push_back(char(number >> shift));
        seed = sha256_start(reinterpret_cast<const uint8_t *>(text.data()), text.size());
    }

    uint64_t next() {
        uint64_t z = seed + ++position * 0x9E3779B97F4A7C15;
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
        z = (z ^ z >> 27) * 0x94D049BB133111EB;
        return z ^ z >> 31;
    }

    bool bernoulli(uint64_t threshold) { return next() >> 11 < threshold; }

    uint32_t below(uint32_t n) { return uint32_t((next() >> 32) * n >> 32); }
};
