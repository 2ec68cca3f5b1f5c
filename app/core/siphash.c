/* siphash.c - SipHash-2-4 of one word, in the notation of the paper. */
#include "app/core/siphash.h"

struct state {
    uint64_t v0, v1, v2, v3;
};

static uint64_t rotate(uint64_t word, unsigned bits)
{
    return word << bits | word >> (64 - bits);
}

static inline void sip_round(struct state *state)
{
    state->v0 += state->v1;
    state->v2 += state->v3;
    state->v1 = rotate(state->v1, 13) ^ state->v0;
    state->v3 = rotate(state->v3, 16) ^ state->v2;
    state->v0 = rotate(state->v0, 32) + state->v3;
    state->v2 += state->v1;
    state->v1 = rotate(state->v1, 17) ^ state->v2;
    state->v3 = rotate(state->v3, 21) ^ state->v0;
    state->v2 = rotate(state->v2, 32);
}

static inline void compress(struct state *state, uint64_t word)
{
    state->v3 ^= word;
    sip_round(state);
    sip_round(state);
    state->v0 ^= word;
}

uint64_t siphash(const uint64_t key[2], uint64_t word)
{
    struct state state = {
        key[0] ^ UINT64_C(0x736f6d6570736575), key[1] ^ UINT64_C(0x646f72616e646f6d),
        key[0] ^ UINT64_C(0x6c7967656e657261), key[1] ^ UINT64_C(0x7465646279746573)};

    compress(&state, word);
    compress(&state, UINT64_C(8) << 56); /* the length of the input */
    state.v2 ^= 0xff;
    for (int i = 0; i < 4; i++)
        sip_round(&state);
    return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}
