import t from 'tap'
import { hashLeaf, hashNode } from '../../../lib/core/audit/tree.js'
import { isConsistent } from '../../../lib/base/shared/merkle-proof.js'
import { isIncluded } from '../../support/inclusion.js'
import { consistencies, inclusions, leaves, roots } from '../../core/audit/ct-vectors.js'

const rootOf = (size: number): Buffer => roots[size - 1] as Buffer
const flipped = (hash: Uint8Array): Buffer => {
  const copy = Buffer.from(hash)
  copy[7] = (copy[7] as number) ^ 1
  return copy
}

t.test('accepts the proofs of Certificate Transparency', async t => {
  for (const { from, to, proof } of consistencies)
    t.ok(isConsistent({ from, fromRoot: rootOf(from), to, toRoot: rootOf(to), proof }, hashNode), `${from} in ${to}`)
  for (const { index, size, proof } of inclusions) {
    const leaf = hashLeaf(leaves[index] as Buffer)
    t.ok(isIncluded({ index, leaf, size, root: rootOf(size), proof }), `${index} in ${size}`)
  }
})

t.test('rejects proofs with a changed, missing or additional hash, and other roots or sizes', async t => {
  for (const { from, to, proof } of consistencies) {
    const claim = { from, fromRoot: rootOf(from), to, toRoot: rootOf(to), proof }
    const wrong = [
      { ...claim, fromRoot: flipped(claim.fromRoot) },
      { ...claim, toRoot: flipped(claim.toRoot) },
      { ...claim, proof: [...proof, rootOf(3)] },
      ...(proof.length === 0
        ? []
        : [
            { ...claim, proof: proof.slice(1) },
            { ...claim, proof: proof.slice(0, -1) }
          ]),
      ...proof.map((hash, at) => ({ ...claim, proof: proof.with(at, flipped(hash)) })),
      { ...claim, from: to, to: from - 1 },
      { ...claim, from: from + 0.5 },
      { ...claim, to: NaN }
    ]
    for (const one of wrong) t.notOk(isConsistent(one, hashNode), `${from} in ${to}`)
  }
  for (const { index, size, proof } of inclusions) {
    const claim = { index, leaf: hashLeaf(leaves[index] as Buffer), size, root: rootOf(size), proof }
    const wrong = [
      { ...claim, leaf: flipped(claim.leaf) },
      { ...claim, root: flipped(claim.root) },
      { ...claim, proof: proof.slice(1) },
      { ...claim, proof: [...proof, rootOf(3)] },
      { ...claim, index: size },
      { ...claim, index: -1 },
      ...proof.map((hash, at) => ({ ...claim, proof: proof.with(at, flipped(hash)) }))
    ]
    for (const one of wrong) t.notOk(isIncluded(one), `${index} in ${size}`)
  }
})

t.test('every tree begins with the empty one', async t => {
  const empty = Buffer.alloc(32)
  t.ok(isConsistent({ from: 0, fromRoot: empty, to: 3, toRoot: rootOf(3), proof: [] }, hashNode))
  t.notOk(isConsistent({ from: 0, fromRoot: empty, to: 3, toRoot: rootOf(3), proof: [empty] }, hashNode))
})
