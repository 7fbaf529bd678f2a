/*
 * Verification of the consistency proofs of a Merkle tree as in RFC 6962 and RFC 9162. It needs no tree, only the
 * function that hashes two nodes, so that server, client and panel share it.
 */

/** Returns the hash of a node from the hashes of its children. */
export type HashNode = (left: Uint8Array, right: Uint8Array) => Uint8Array

/** The claim that a tree of `to` leaves begins with the leaves of a tree of `from` leaves. */
export interface ConsistencyClaim {
  from: number
  fromRoot: Uint8Array
  to: number
  toRoot: Uint8Array
  proof: readonly Uint8Array[]
}

/** Verifies a consistency proof (RFC 9162 §2.1.4.2). */
export function isConsistent({ from, fromRoot, to, toRoot, proof }: ConsistencyClaim, hash: HashNode): boolean {
  if (!isSize(from) || !isSize(to) || from > to) return false
  if (from === to) return proof.length === 0 && isSameHash(fromRoot, toRoot)
  // Every tree begins with the empty one.
  if (from === 0) return proof.length === 0
  const path = isPowerOfTwo(from) ? [fromRoot, ...proof] : [...proof]
  const first = path.shift()
  if (first === undefined) return false
  let [lower, upper] = [from - 1, to - 1]
  while (lower % 2 === 1) [lower, upper] = [half(lower), half(upper)]
  let [earlier, later] = [first, first]
  for (const node of path) {
    if (upper === 0) return false
    if (lower % 2 === 1 || lower === upper) {
      earlier = hash(node, earlier)
      later = hash(node, later)
      while (lower % 2 === 0 && lower !== 0) [lower, upper] = [half(lower), half(upper)]
    } else {
      later = hash(later, node)
    }
    ;[lower, upper] = [half(lower), half(upper)]
  }
  return upper === 0 && isSameHash(earlier, fromRoot) && isSameHash(later, toRoot)
}

/** Returns whether two hashes are equal. */
function isSameHash(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, at) => byte === b[at])
}

// Division instead of shifts: a size may exceed 32 bits.
const half = (value: number): number => Math.floor(value / 2)

function isSize(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0
}

function isPowerOfTwo(value: number): boolean {
  return Number.isInteger(Math.log2(value))
}
