import t from 'tap'
import {
  appendLeaf,
  blockHeight,
  blockLeaves,
  consistencyProof,
  createGaps,
  entryLine,
  entryStart,
  entryText,
  type Frontier,
  frontierAt,
  hashBytes,
  hashLeaf,
  hashLength,
  hashNode,
  inclusionProof,
  isFrontier,
  leafStart,
  otherLine,
  type ReadNode,
  readRanges,
  rootOf,
  type SealedEntry,
  writeRanges
} from '../../../lib/core/audit/tree.js'
import { isConsistent } from '../../../lib/base/shared/merkle-proof.js'
import { isIncluded } from '../../support/inclusion.js'
import { createRandom } from '../../support/random.js'
import { consistencies, inclusions, leaves, roots } from './ct-vectors.js'

function frontierOf(hashes: readonly Buffer[]): Frontier {
  return hashes.reduce((frontier, leaf) => appendLeaf(frontier, leaf).frontier, { size: 0, hashes: [] } as Frontier)
}

/** Reads the nodes of a tree by the definition (RFC 6962 §2.1). */
function nodesOf(hashes: readonly Buffer[]): ReadNode {
  const read: ReadNode = (height, number) =>
    height === 0 ? (hashes[number] as Buffer) : hashNode(read(height - 1, 2 * number), read(height - 1, 2 * number + 1))
  return read
}

const numbered = (count: number): Buffer[] => Array.from({ length: count }, (_, n) => hashLeaf(`leaf ${n}`))

t.test('gives the roots of Certificate Transparency', async t => {
  const hashes = leaves.map(hashLeaf)
  t.equal(
    rootOf(frontierOf([])).toString('hex'),
    'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
    'the empty tree'
  )
  roots.forEach((root, at) => t.same(rootOf(frontierOf(hashes.slice(0, at + 1))), root, `${at + 1} leaves`))
})

t.test('gives the proofs of Certificate Transparency', async t => {
  const read = nodesOf(leaves.map(hashLeaf))
  for (const { index, size, proof } of inclusions) t.same(inclusionProof(index, size, read), proof)
  for (const { from, to, proof } of consistencies) t.same(consistencyProof(from, to, read), proof)
})

t.test('proves every pair of sizes and every leaf of trees up to 40 leaves', async t => {
  const hashes = numbered(40)
  const read = nodesOf(hashes)
  const root = hashes.map((_, at) => rootOf(frontierOf(hashes.slice(0, at))))
  for (let to = 1; to < root.length; to++) {
    const toRoot = root[to] as Buffer
    for (let from = 0; from <= to; from++) {
      const proof = consistencyProof(from, to, read)
      t.ok(isConsistent({ from, fromRoot: root[from] as Buffer, to, toRoot, proof }, hashNode), `${from} in ${to}`)
    }
    for (let index = 0; index < to; index++) {
      const proof = inclusionProof(index, to, read)
      t.ok(isIncluded({ index, leaf: hashes[index] as Buffer, size: to, root: toRoot, proof }))
    }
    t.same(frontierAt(to, read), frontierOf(hashes.slice(0, to)))
  }
})

t.test('returns the root of each block that a leaf completes', async t => {
  const hashes = numbered(3 * blockLeaves)
  const read = nodesOf(hashes)
  const blocks: Array<[size: number, root: Buffer]> = []
  let frontier = frontierOf([])
  for (const leaf of hashes) {
    const appended = appendLeaf(frontier, leaf)
    frontier = appended.frontier
    if (appended.block !== null) blocks.push([frontier.size, appended.block])
  }
  t.same(
    blocks,
    [0, 1, 2].map(number => [(number + 1) * blockLeaves, read(blockHeight, number)])
  )
})

t.test('recognizes a frontier that does not fit its size', async t => {
  const frontier = frontierOf(numbered(11))
  t.equal(isFrontier(frontier), true)
  t.equal(isFrontier({ ...frontier, size: 12 }), false)
  t.equal(isFrontier({ ...frontier, size: -1 }), false)
  t.equal(isFrontier({ size: 1, hashes: [Buffer.alloc(31)] }), false)
})

t.test('a proof has at most 60 hashes, in a log of a billion entries, too', async t => {
  const hash = Buffer.alloc(hashBytes)
  const random = createRandom(60)
  const largest = 2 ** 30
  const sizes = Array.from({ length: 2000 }, () => 1 + random.below(largest))
  for (const size of [...sizes, largest, largest - 1, largest / 2 + 1]) {
    const at = random.oneOf([0, size - 1, random.below(size)])
    const proofs = [inclusionProof(at, size, () => hash), consistencyProof(at + 1, size, () => hash)]
    if (proofs.some(({ length }) => length > 60))
      t.fail(`${at} of ${size}: ${proofs.map(({ length }) => length).join()}`)
  }
  t.ok(inclusionProof(largest - 2, largest - 1, () => hash).length > 20)
})

t.test('writes and reads lists of numbers', async t => {
  t.equal(writeRanges([]), '')
  t.equal(writeRanges([7]), '7')
  t.equal(writeRanges([1, 2, 3, 12, 15, 16]), '1-3,12,15-16')
  t.same(readRanges('1-3,12,15-16'), [
    [1, 3],
    [12, 12],
    [15, 16]
  ])
  t.same(readRanges('x,-1,3-,4'), [[4, 4]], 'without unreadable parts')
})

t.test('finds missing entries that no entry names', async t => {
  const cases: Array<[missing: Array<[number, number]>, announced: string[], first: number | null]> = [
    [[], [], null],
    [[[4, 4]], [], 4],
    [[[1, 10]], ['1-10'], null],
    [[[1, 10]], ['6-10', '1-5'], null],
    [[[1, 10]], ['1-4', '6-10'], 5],
    [[[1, 10]], ['1-4', '1-9'], 10],
    [
      [
        [1, 10],
        [12, 12],
        [15, 20]
      ],
      ['1-10', '12', '14-30'],
      null
    ],
    [
      [
        [1, 10],
        [12, 12],
        [15, 20]
      ],
      ['1-10', '14-30'],
      12
    ],
    [[[3, 4]], ['1-2', '5-9'], 3]
  ]
  for (const [missing, announced, first] of cases) {
    const gaps = createGaps()
    for (const [from, to] of missing) gaps.miss(from, to)
    announced.forEach(gaps.announce)
    t.equal(gaps.unannounced(), first, JSON.stringify([missing, announced]))
  }
})

t.test('counts missing entries', async t => {
  const gaps = createGaps()
  for (const seq of [1, 2, 3, 7]) gaps.miss(seq, seq)
  gaps.miss(257, 512)
  t.equal(gaps.count(), 260)
})

const entry: SealedEntry = {
  failures: null,
  ok: true,
  detail: 'Grüße "x"\n',
  target: 'proj_a',
  projectId: null,
  claimedIp: null,
  ip: '192.0.2.1',
  sessionId: null,
  role: 'admin',
  tokenName: null,
  tokenId: null,
  actor: 'admin',
  action: 'project.create',
  at: '2030-01-01T00:00:00.000Z',
  id: 'aud_a',
  seq: 7
}

t.test('has the fields in a fixed order, without those that are null', async t => {
  t.equal(
    entryText(entry),
    '{"seq":7,"id":"aud_a","at":"2030-01-01T00:00:00.000Z","action":"project.create","actor":"admin",' +
      '"role":"admin","ip":"192.0.2.1","target":"proj_a","detail":"Grüße \\"x\\"\\n","ok":true}'
  )
})

t.test('contains every field that is not null', async t => {
  const filled = Object.fromEntries(Object.entries(entry).map(([field, value]) => [field, value ?? 'x']))
  t.same(JSON.parse(entryText(filled as unknown as SealedEntry)), filled)
})

t.test('lines are JSON, with the text of the entry unchanged', async t => {
  const [leaf, text] = [hashLeaf('x').toString('base64'), '{"seq":1,"id":"aud_a"}']
  t.equal(leaf.length, hashLength)
  const line = entryLine(leaf, text)
  t.equal(line, `${leafStart}${leaf}${entryStart}${text}}\n`)
  t.same(JSON.parse(line), { leaf, entry: { seq: 1, id: 'aud_a' } })
  t.same(JSON.parse(otherLine({ leaf, removed: 2 })), { leaf, removed: 2 })
})
