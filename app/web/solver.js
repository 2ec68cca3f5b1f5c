/*
 * solver.js - a worker that solves the challenge of a ticket.
 *
 * It has its own SHA-256, which is synchronous. crypto.subtle returns a promise for each hash,
 * which costs more than the hash, and exists only in secure contexts. The text fits into one block,
 * and only the first word of the digest is computed.
 */
const REPORT_MS = 100;
const TRIES_AT_ONCE = 8192;

/* Source: FIPS 180-4, 4.2.2 and 5.3.3 */
const constants = Int32Array.of(
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2);
const initial = Int32Array.of(
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19);

const words = new Int32Array(64);

/* Returns a text of at most 55 ASCII characters as the 16 words of a padded block. */
function fillBlock(text) {
    words.fill(0, 0, 16);
    for (let i = 0; i < text.length; i++)
        words[i >> 2] |= text.charCodeAt(i) << 24 - 8 * (i & 3);
    words[text.length >> 2] |= 0x80 << 24 - 8 * (text.length & 3);
    words[15] = 8 * text.length;
}

/** Returns the first word of the SHA-256 of a text of at most 55 ASCII characters. */
function firstWord(text) {
    fillBlock(text);
    for (let i = 16; i < 64; i++) {
        const x = words[i - 15], y = words[i - 2];
        const s0 = (x >>> 7 | x << 25) ^ (x >>> 18 | x << 14) ^ x >>> 3;
        const s1 = (y >>> 17 | y << 15) ^ (y >>> 19 | y << 13) ^ y >>> 10;
        words[i] = words[i - 16] + s0 + words[i - 7] + s1;
    }
    let a = initial[0], b = initial[1], c = initial[2], d = initial[3];
    let e = initial[4], f = initial[5], g = initial[6], h = initial[7];
    for (let i = 0; i < 64; i++) {
        const s1 = (e >>> 6 | e << 26) ^ (e >>> 11 | e << 21) ^ (e >>> 25 | e << 7);
        const s0 = (a >>> 2 | a << 30) ^ (a >>> 13 | a << 19) ^ (a >>> 22 | a << 10);
        const t1 = h + s1 + (e & f ^ ~e & g) + constants[i] + words[i] | 0;
        const t2 = s0 + (a & b ^ a & c ^ b & c) | 0;
        h = g;
        g = f;
        f = e;
        e = d + t1 | 0;
        d = c;
        c = b;
        b = a;
        a = t1 + t2 | 0;
    }
    return a + initial[0] | 0;
}

/* Sends the messages {share} and at the end {nonce}. The share is the part of all devices that
   would have solved the challenge by now. */
onmessage = ({data: {challenge, bits}}) => {
    let reportedAt = performance.now();
    for (let tries = 0;; tries++) {
        if (Math.clz32(firstWord(`${challenge}:${tries}`)) >= bits) {
            postMessage({nonce: String(tries)});
            return;
        }
        if (tries % TRIES_AT_ONCE === 0 && performance.now() - reportedAt > REPORT_MS) {
            reportedAt = performance.now();
            postMessage({share: 1 - Math.exp(-tries / 2 ** bits)});
        }
    }
};
