import { hashNode } from '../../lib/core/audit/tree.js'

/** The claim that the leaf with this index, counted from 0, is in a tree of `size` leaves. */
interface InclusionClaim {
  index: number
  leaf: Uint8Array
  size: number
  root: Uint8Array
  proof: readonly Uint8Array[]
}

/** Verifies an inclusion proof, by the definition of the path (RFC 6962 §2.1.1). */
export function isIncluded({ index, leaf, size, root, proof }: InclusionClaim): boolean {
  return index >= 0 && index < size && rootBy(leaf, index, size, proof)?.equals(root) === true
}

function rootBy(leaf: Uint8Array, index: number, size: number, proof: readonly Uint8Array[]): Buffer | null {
  const last = proof.at(-1)
  if (size === 1 || last === undefined) return size === 1 && last === undefined ? Buffer.from(leaf) : null
  const left = 2 ** (Math.ceil(Math.log2(size)) - 1)
  const rest = proof.slice(0, -1)
  const inner = index < left ? rootBy(leaf, index, left, rest) : rootBy(leaf, index - left, size - left, rest)
  if (inner === null) return null
  return index < left ? hashNode(inner, last) : hashNode(last, inner)
}
